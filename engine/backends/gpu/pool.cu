// Pools over windows of up to three dimensions, and their transposes. T: the type of the elements; K: that of taps; I: that of offsets.
//
// An array has batches, channels and positions, each with a stride in elements. The position of an element in its window is its tap, in C
// order. The transposes gather: a thread looks for the windows of its element, so that sums have the same order in every run.

typedef computed<T> C;

struct Pool {
  I count, channels, x[5], y[5], z[5];  // threads; strides of arrays of the input's size, of the pooled size, and of the taps
  int32_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
  int32_t last;  // whether channels are innermost in memory, so that neighboring threads have neighboring channels
};

template <typename E> struct Lowest { static INLINE E value() { return (E)-1 < 0 ? (E)((uint64_t)1 << (8 * sizeof(E) - 1)) : (E)0; } };
template <> struct Lowest<float> { static INLINE float value() { return -INFINITY; } };
template <> struct Lowest<double> { static INLINE double value() { return -INFINITY; } };
template <> struct Lowest<half_t> { static INLINE half_t value() { return down<half_t>(-INFINITY); } };
template <> struct Lowest<bf16_t> { static INLINE bf16_t value() { return down<bf16_t>(-INFINITY); } };

// The place of thread i in an array with positions of these sizes.
struct Place {
  I batch, channel;
  int32_t at[3];
  INLINE Place(const Pool& p, const int32_t* sizes, I i) {
    if (p.last) channel = i % p.channels, i /= p.channels;
    for (int d = 2; d >= 0; --d) at[d] = i % sizes[d], i /= sizes[d];
    if (!p.last) channel = i % p.channels, i /= p.channels;
    batch = i;
  }
  INLINE I offset(const I* strides) const { return offset(strides, at); }
  INLINE I offset(const I* s, const int32_t* to) const { return batch * s[0] + channel * s[1] + to[0] * s[2] + to[1] * s[3] + to[2] * s[4]; }
};

// Calls f(tap, k) for each tap of a kernel, with its place in each dimension.
template <class F> INLINE void taps_of(const Pool& p, F f) {
  int tap = 0;
  for (int a = 0; a < p.kernel[0]; ++a) for (int b = 0; b < p.kernel[1]; ++b) for (int c = 0; c < p.kernel[2]; ++c) {
    const int k[3] = {a, b, c};
    f(tap++, k);
  }
}

// Calls f(tap, position) for each tap of the window at a place whose position is in the input.
template <class F> INLINE void window(const Pool& p, const Place& place, F f) {
  taps_of(p, [&](int tap, const int* k) {
    int to[3];
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      to[d] = place.at[d] * p.stride[d] - p.pad[d] + k[d] * p.dilation[d];
      inside = inside && to[d] >= 0 && to[d] < p.in[d];
    }
    if (inside) f(tap, to);
  });
}

// Calls f(tap, window) for each window that an element is in.
template <class F> INLINE void windows(const Pool& p, const Place& place, F f) {
  taps_of(p, [&](int tap, const int* k) {
    int to[3];
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      const int start = place.at[d] + p.pad[d] - k[d] * p.dilation[d];
      to[d] = start / p.stride[d];
      inside = inside && start >= 0 && to[d] * p.stride[d] == start && to[d] < p.out[d];
    }
    if (inside) f(tap, to);
  });
}

// The divisor of a window's sum: how many positions it has, in the input alone or in the padded input.
INLINE C share(const Pool& p, const int32_t* window, int64_t divisor, bool padded) {
  if (divisor) return (C)divisor;
  int64_t count = 1;
  for (int d = 0; d < 3; ++d) {
    const int start = window[d] * p.stride[d] - p.pad[d], end = start + p.kernel[d], last = padded ? p.in[d] + p.pad[d] : p.in[d];
    count *= (end < last ? end : last) - (padded || start > 0 ? start : 0);
  }
  return (C)count;
}

// Of equal elements the first one counts, of several nan the last.
extern "C" __global__ void max_pool(Pool p, const T* x, T* y, K* taps) {
  const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place place(p, p.out, i);
  T best = Lowest<T>::value();
  int found = -1;
  window(p, place, [&](int tap, const int* to) {
    const T value = x[place.offset(p.x, to)];
    const auto v = up(value);
    if (found < 0 || v > up(best) || v != v) best = value, found = tap;
  });
  y[place.offset(p.y)] = best;
  taps[place.offset(p.z)] = (K)(found < 0 ? 0 : found);
}

extern "C" __global__ void tap_scatter(Pool p, const T* g, const K* taps, T* out) {
  const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place place(p, p.in, i);
  C sum = 0;
  windows(p, place, [&](int tap, const int* to) {
    if ((int)taps[place.offset(p.z, to)] == tap) sum += up(g[place.offset(p.y, to)]);
  });
  out[place.offset(p.x)] = down<T>(sum);
}

extern "C" __global__ void tap_gather(Pool p, const T* x, const K* taps, T* out) {
  const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place place(p, p.out, i);
  const int at = (int)taps[place.offset(p.z)];
  T value = down<T>((C)0);
  window(p, place, [&](int tap, const int* to) { if (tap == at) value = x[place.offset(p.x, to)]; });
  out[place.offset(p.y)] = value;
}

extern "C" __global__ void avg_pool(Pool p, const T* x, T* y, int64_t divisor, bool padded) {
  const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place place(p, p.out, i);
  C sum = 0;
  window(p, place, [&](int tap, const int* to) { sum += up(x[place.offset(p.x, to)]); });
  y[place.offset(p.y)] = down<T>(sum / share(p, place.at, divisor, padded));
}

extern "C" __global__ void avg_pool_back(Pool p, const T* g, T* out, int64_t divisor, bool padded) {
  const I i = (I)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const Place place(p, p.in, i);
  C sum = 0;
  windows(p, place, [&](int tap, const int* to) { sum += up(g[place.offset(p.y, to)]) / share(p, to, divisor, padded); });
  out[place.offset(p.x)] = down<T>(sum);
}
