// Types and functions that every kernel uses. NVRTC compiles this text, and so does a C++ compiler in the tests, which define EMULATED.

#ifndef EMULATED
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)
#endif
#define INLINE __device__ __forceinline__

// -- half precision ----------------------------------------------------------------------------------------------------------
// float16 and bfloat16 are storage types: `up` reads one as a float, `down` rounds a float to the nearest, ties to even.

struct bf16_t { uint16_t bits; };
struct half_t { uint16_t bits; };

INLINE float bits_float(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
INLINE uint32_t float_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }

template <typename T> INLINE T up(T x) { return x; }
INLINE float up(bf16_t x) { return bits_float((uint32_t)x.bits << 16); }
INLINE float up(half_t x) {
#ifdef EMULATED
  return emu::half_to_float(x.bits);
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#endif
}

template <typename T> struct Down { template <typename S> static INLINE T of(S x) { return (T)x; } };
template <> struct Down<bf16_t> {
  static INLINE bf16_t of(float x) {
    const uint32_t bits = float_bits(x);
    return bf16_t{x != x ? (uint16_t)0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
  }
};
template <> struct Down<half_t> {
  static INLINE half_t of(float x) {
    half_t y;
#ifdef EMULATED
    y.bits = emu::float_to_half(x);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#endif
    return y;
  }
};
template <typename T, typename S> INLINE T down(S x) { return Down<T>::of(x); }

// The type in which elements of type T are computed: float for half precision, else T.
template <typename T> struct Computed { typedef T type; };
template <> struct Computed<bf16_t> { typedef float type; };
template <> struct Computed<half_t> { typedef float type; };
template <typename T> using computed = typename Computed<T>::type;

// -- memory ------------------------------------------------------------------------------------------------------------------

// N elements that are read or written at once; the address must be a multiple of their size together.
template <typename T, int N> struct alignas(sizeof(T) * N) Vec { T v[N]; };
template <int N, typename T> INLINE Vec<T, N> load(const T* p) { return *reinterpret_cast<const Vec<T, N>*>(p); }
template <int N, typename T> INLINE void store(T* p, const Vec<T, N>& x) { *reinterpret_cast<Vec<T, N>*>(p) = x; }

// Where an element is in each of N arrays: sizes and strides in elements, the fastest dimension first. I: uint32_t if no offset is
// larger, else int64_t.
template <typename I, int N> struct Layout {
  I size;
  int32_t dims;
  I shape[8], stride[8][N];
  INLINE void places(I i, I* p) const {
    for (int k = 0; k < N; ++k) p[k] = 0;
    for (int d = 0; d < dims; ++d) {
      const I rest = i / shape[d], at = i - rest * shape[d];
      for (int k = 0; k < N; ++k) p[k] += at * stride[d][k];
      i = rest;
    }
  }
};

// -- complex numbers ---------------------------------------------------------------------------------------------------------

template <typename T> struct alignas(2 * sizeof(T)) cplx {
  T re, im;
  cplx() = default;
  INLINE cplx(T re, T im = 0) : re(re), im(im) {}
  template <typename S> INLINE explicit cplx(cplx<S> z) : re((T)z.re), im((T)z.im) {}
};
typedef cplx<float> complex64_t;
typedef cplx<double> complex128_t;
template <typename T> INLINE cplx<T> operator+(cplx<T> a, cplx<T> b) { return {a.re + b.re, a.im + b.im}; }
template <typename T> INLINE cplx<T> operator-(cplx<T> a, cplx<T> b) { return {a.re - b.re, a.im - b.im}; }
template <typename T> INLINE cplx<T> operator-(cplx<T> a) { return {-a.re, -a.im}; }
template <typename T> INLINE cplx<T> operator*(cplx<T> a, cplx<T> b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
template <typename T> INLINE cplx<T> operator/(cplx<T> a, cplx<T> b) {  // Smith's algorithm: no overflow where the quotient has none
  if (fabs(b.re) >= fabs(b.im)) {
    const T r = b.im / b.re, d = b.re + b.im * r;
    return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
  }
  const T r = b.re / b.im, d = b.re * r + b.im;
  return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}
template <typename T> INLINE bool operator==(cplx<T> a, cplx<T> b) { return a.re == b.re && a.im == b.im; }
template <typename T> INLINE bool operator!=(cplx<T> a, cplx<T> b) { return !(a == b); }
template <typename T> INLINE cplx<T> conj(cplx<T> a) { return {a.re, -a.im}; }
template <typename T> INLINE T magnitude(cplx<T> a) { return hypot(a.re, a.im); }
template <typename T> INLINE cplx<T> sign(cplx<T> a) {  // a / |a|
  if (!isfinite(a.re) || !isfinite(a.im)) return {(T)NAN, (T)NAN};
  const T r = magnitude(a);
  return r == 0 ? cplx<T>(0) : cplx<T>(a.re / r, a.im / r);
}

// -- arithmetic that C++ has otherwise or not ----------------------------------------------------------------------------------

// The larger and smaller of two numbers. `maximum` and `minimum` give nan if either is nan, `fmax` and `fmin` the other number.
template <typename T> INLINE T largest(T a, T b) { return a != a ? a : b != b ? b : a > b ? a : b; }
template <typename T> INLINE T smallest(T a, T b) { return a != a ? a : b != b ? b : a < b ? a : b; }
template <typename T> INLINE T larger(T a, T b) { return a != a ? b : b != b ? a : a > b ? a : b; }
template <typename T> INLINE T smaller(T a, T b) { return a != a ? b : b != b ? a : a < b ? a : b; }

// Quotients and remainders. Integers by 0 give 0, without an error.
template <typename T> struct Division {
  static INLINE T truncated(T a, T b) { return b == 0 ? 0 : b == (T)-1 ? (T)(0 - (uint64_t)a) : a / b; }
  static INLINE T c_remainder(T a, T b) { return b == 0 || b == (T)-1 ? 0 : a % b; }
  static INLINE T remainder(T a, T b) { const T r = c_remainder(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
  static INLINE T floored(T a, T b) { const T q = truncated(a, b); return c_remainder(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q; }
};
template <typename T> struct FloatDivision {
  static INLINE T truncated(T a, T b) { return trunc(a / b); }
  static INLINE T c_remainder(T a, T b) { return fmod(a, b); }
  static INLINE T remainder(T a, T b) {
    const T r = fmod(a, b);
    return r == 0 ? copysign((T)0, b) : (r < 0) != (b < 0) ? r + b : r;
  }
  static INLINE T floored(T a, T b) {  // as Python's float.__floordiv__
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    T d = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) d -= 1;
    if (d == 0) return copysign((T)0, a / b);
    const T f = floor(d);
    return d - f > (T)0.5 ? f + 1 : f;
  }
};
template <> struct Division<float> : FloatDivision<float> {};
template <> struct Division<double> : FloatDivision<double> {};

template <typename T> INLINE T integer_power(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == (T)-1 ? ((b & 1) ? (T)-1 : 1) : 0;
  uint64_t r = 1, base = (uint64_t)a;  // unsigned: overflow wraps
  for (uint64_t n = (uint64_t)b; n; n >>= 1) {
    if (n & 1) r *= base;
    base *= base;
  }
  return (T)r;
}
template <typename T> INLINE T gcd(T a, T b) {
  a = a < 0 ? (T)(0 - (uint64_t)a) : a;
  b = b < 0 ? (T)(0 - (uint64_t)b) : b;
  while (b != 0) { const T r = a % b; a = b; b = r; }
  return a;
}
template <typename T> INLINE T lcm(T a, T b) {
  const T g = gcd(a, b);
  if (g == 0) return 0;
  const T r = (T)((uint64_t)(a / g) * (uint64_t)b);
  return r < 0 ? (T)(0 - (uint64_t)r) : r;
}
template <typename T> INLINE T shift_left(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((uint64_t)a << b); }
template <typename T> INLINE T shift_right(T a, T b) { return b < 0 || b >= (T)(8 * sizeof(T)) ? (a < 0 ? (T)-1 : 0) : a >> b; }
