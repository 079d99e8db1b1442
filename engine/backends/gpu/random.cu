// Random numbers by Philox.
// T: the element type of the result, a floating-point one for uniform, normal and exponential. P: that of probabilities.
//
// A stream is a seed, the key, and a counter of blocks of four 32-bit words. A thread draws one block and makes N elements of it, so an
// element depends on its number alone, and a call for n elements advances the stream by ceil(n / N) blocks.

#include "philox.cuh"

INLINE uint64_t long_word(const Words& words, int k) { return (uint64_t)words.w[2 * k + 1] << 32 | words.w[2 * k]; }

// How uniform numbers are made: `unit` in [0, 1), `above` in (0, 1] for logarithms, and the least exponential number.
template <typename C> struct Unit {
  typedef float F;
  static constexpr int N = 4;
  static constexpr F LEAST = 1.0f / 33554432;  // 2^-25
  static INLINE float unit(const Words& words, int k) { return (words.w[k] >> 8) * (1.0f / 16777216); }
  static INLINE float above(const Words& words, int k) { return ((float)words.w[k] + 1) * (1.0f / 4294967296); }
};
template <> struct Unit<double> {
  typedef double F;
  static constexpr int N = 2;
  static constexpr F LEAST = 1.0 / 18014398509481984;  // 2^-54
  static INLINE double unit(const Words& words, int k) { return (long_word(words, k) >> 11) * (1.0 / 9007199254740992); }
  static INLINE double above(const Words& words, int k) { return ((long_word(words, k) >> 11) + 1) * (1.0 / 9007199254740992); }
};

typedef computed<T> C;
typedef Unit<C> U;
typedef U::F F;
constexpr int BLOCK = 256;

// Write the N elements that `make(words, number of the first)` gives for each block.
template <int N, typename Make> INLINE void draw(T* out, int64_t size, Source source, Make make) {
  const int64_t block = (int64_t)blockIdx.x * BLOCK + threadIdx.x, first = block * N;
  if (first >= size) return;
  const uint64_t seed = source.state ? source.state[0] : source.seed, offset = source.offset + (source.state ? source.state[1] : 0);
  const Vec<T, N> x = make(philox(seed, offset + (uint64_t)block, 0), first);
  if (first + N <= size) {
    store<N>(out + first, x);
  } else {
    for (int k = 0; k < N; ++k) if (first + k < size) out[first + k] = x.v[k];
  }
}

// In [low, high): a number that rounding brings to `high` becomes `low`.
extern "C" __global__ void __launch_bounds__(BLOCK) uniform(T* out, int64_t size, Source source, double low, double high) {
  draw<U::N>(out, size, source, [=](const Words& words, int64_t) {
    const F a = (F)low, b = (F)high;
    Vec<T, U::N> x;
#pragma unroll
    for (int k = 0; k < U::N; ++k) {
      x.v[k] = down<T>((C)(a + U::unit(words, k) * (b - a)));
      if (up(x.v[k]) >= up(down<T>((C)b))) x.v[k] = down<T>((C)a);
    }
    return x;
  });
}

// By Box and Muller's transform of pairs.
extern "C" __global__ void __launch_bounds__(BLOCK) normal(T* out, int64_t size, Source source, double mean, double std) {
  draw<U::N>(out, size, source, [=](const Words& words, int64_t) {
    Vec<T, U::N> x;
#pragma unroll
    for (int k = 0; k < U::N; k += 2) {
      const F radius = sqrt(-2 * log(U::above(words, k))), angle = 2 * U::unit(words, k + 1);
      x.v[k] = down<T>((C)(radius * cospi(angle) * (F)std + (F)mean));
      x.v[k + 1] = down<T>((C)(radius * sinpi(angle) * (F)std + (F)mean));
    }
    return x;
  });
}

extern "C" __global__ void __launch_bounds__(BLOCK) exponential(T* out, int64_t size, Source source, double rate) {
  draw<U::N>(out, size, source, [=](const Words& words, int64_t) {
    Vec<T, U::N> x;
#pragma unroll
    for (int k = 0; k < U::N; ++k) x.v[k] = down<T>((C)(larger((F)-log(U::above(words, k)), U::LEAST) / (F)rate));
    return x;
  });
}

// 1 with the probability each[number], or p without an array, else 0.
extern "C" __global__ void __launch_bounds__(BLOCK)
bernoulli(T* out, int64_t size, Source source, const P* each, double p) {
  draw<4>(out, size, source, [=](const Words& words, int64_t first) {
    Vec<T, 4> x;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const double chance = each ? first + k < size ? (double)up(each[first + k]) : 0 : p;
      x.v[k] = down<T>((C)(words.w[k] < chance * 4294967296.0));
    }
    return x;
  });
}

// low, ..., low + span - 1, or all 2^64 integers for a span of 0, from 64 bits each.
extern "C" __global__ void __launch_bounds__(BLOCK) integers(T* out, int64_t size, Source source, int64_t low, uint64_t span) {
  draw<2>(out, size, source, [=](const Words& words, int64_t) {
    Vec<T, 2> x;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const uint64_t word = long_word(words, k);
      x.v[k] = down<T>((C)(int64_t)((uint64_t)low + (span ? __umul64hi(word, span) : word)));
    }
    return x;
  });
}

extern "C" __global__ void __launch_bounds__(1) set_state(uint64_t* state, uint64_t seed, uint64_t offset) {
  state[0] = seed;
  state[1] = offset;
}

// Keep a seed and a counter, `step` numbers apart, for kernels that draw from there.
extern "C" __global__ void __launch_bounds__(1) hold(uint64_t* state, Source source, int64_t step) {
  state[0] = source.state ? source.state[0] : source.seed;
  state[step] = source.offset + (source.state ? source.state[1] : 0);
}
