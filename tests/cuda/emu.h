// CUDA's words for a C++ compiler, enough to run a kernel's own text on the CPU: block by block, each thread a fiber that rests at barriers.
#pragma once
#define EMULATED 1
#define _GLIBCXX_BITS_SPECFUN_H 1  // without <cmath>'s special functions of C++17, a quarter of what a kernel takes to build
#include <cmath>
#include <cstdint>
#include <cstring>
#include <math.h>  // functions of floats under CUDA's names, without std::
#include <utility>
using std::fabs; using std::isfinite; using std::isinf; using std::isnan; using std::lgamma; using std::signbit;
template <class T> T max(T a, T b) { return a < b ? b : a; }
template <class T> T min(T a, T b) { return b < a ? b : a; }
struct dim3 { unsigned x, y, z; };

// What emu.cpp has: one library for all kernels, so that a kernel's own takes a fraction of a second to build.
namespace emu {
struct Thread { dim3 tid; int lane; };
extern Thread* now;
extern dim3 grid, block, bid;
extern char dynamic_memory[];
void sync(const char* at);
uint64_t exchange_bits(unsigned mask, uint64_t bits, int from, const char* at);
double cyl_bessel_i(double order, double x);
// Shared memory is what lies between `first` and `last`. Returns 1 after a fault, which emu_fault() describes.
int run(void (*body)(void*), void* arguments, bool fibrous, const unsigned* g, const unsigned* b, size_t shared, char* first, char* last);

inline float half_to_float(uint16_t bits) { _Float16 h; memcpy(&h, &bits, 2); return (float)h; }
inline uint16_t float_to_half(float x) { _Float16 h = (_Float16)x; uint16_t bits; memcpy(&bits, &h, 2); return bits; }
template <class T> T exchange(unsigned mask, T v, int from, const char* at) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof(T));
  bits = exchange_bits(mask, bits, from, at);
  memcpy(&v, &bits, sizeof(T));
  return v;
}
template <class A> A argument(const void* p) { A x; memcpy(&x, p, sizeof(A)); return x; }  // the driver copies them, at any address
template <class... A, size_t... I> void invoke(void (*k)(A...), void** a, std::index_sequence<I...>) { k(argument<A>(a[I])...); }
template <class... A> struct Bound {
  void (*kernel)(A...);
  void** arguments;
  static void call(void* p) { auto* x = (Bound*)p; invoke(x->kernel, x->arguments, std::index_sequence_for<A...>{}); }
};
extern "C" char __start_emu_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_emu_shared[] __attribute__((weak, visibility("hidden")));
template <class... A> int launch(void (*k)(A...), bool fibrous, const unsigned* g, const unsigned* b, size_t shared, void** arguments) {
  Bound<A...> bound{k, arguments};
  return run(&Bound<A...>::call, &bound, fibrous, g, b, shared, __start_emu_shared, __stop_emu_shared);
}
template <class... A> int sizes(void (*)(A...), int* out) { int n = 0; ((out[n++] = (int)sizeof(A)), ...); return n; }
}  // namespace emu
#define EMU_EXPORT(NAME, FIBROUS) \
  extern "C" int emu_launch_##NAME(const unsigned* g, const unsigned* b, size_t shared, void** arguments) { return emu::launch(&NAME, FIBROUS, g, b, shared, arguments); } \
  extern "C" int emu_sizes_##NAME(int* out) { return emu::sizes(&NAME, out); }
#define EMU_TEXT_(x) #x
#define EMU_TEXT(x) EMU_TEXT_(x)
#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __shared__ static __attribute__((section("emu_shared")))
#define blockIdx (emu::bid)
#define gridDim (emu::grid)
#define blockDim (emu::block)
#define threadIdx (emu::now->tid)
#define __syncthreads() emu::sync("line " EMU_TEXT(__LINE__))
#define __syncwarp() emu::exchange(0xffffffffu, 0, -1, "line " EMU_TEXT(__LINE__))
#define __shfl_xor_sync(m, v, d) emu::exchange(m, v, emu::now->lane ^ (d), "line " EMU_TEXT(__LINE__))
#define __shfl_down_sync(m, v, d) emu::exchange(m, v, emu::now->lane + (d), "line " EMU_TEXT(__LINE__))
#define __shfl_up_sync(m, v, d) emu::exchange(m, v, emu::now->lane - (d), "line " EMU_TEXT(__LINE__))
#define __shfl_sync(m, v, l) emu::exchange(m, v, (l), "line " EMU_TEXT(__LINE__))
template <class T> T atomicAdd(T* p, T v) { T o = *p; *p = o + v; return o; }
template <class T> T atomicOr(T* p, T v) { T o = *p; *p = o | v; return o; }
template <class T> T atomicMax(T* p, T v) { T o = *p; *p = max(o, v); return o; }
template <class T> T atomicCAS(T* p, T expected, T v) { T o = *p; if (o == expected) *p = v; return o; }
template <class T> T __ldg(const T* p) { return *p; }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }

// functions that CUDA has and C++ has not
template <class T> T normcdf(T x) { return (T)(std::erfc(-x * M_SQRT1_2l) / 2); }
template <class T> T erfinv(T y) {
  if (!(y > -1 && y < 1)) return y == 1 ? (T)INFINITY : y == -1 ? (T)-INFINITY : (T)NAN;
  const double a = 2 / (M_PI * 0.147), w = std::log1p(-(double)y * y), s = a + w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(s * s - w / 0.147) - s), (double)y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) / (M_2_SQRTPI * std::exp(-x * x));
  return (T)x;
}
template <class T> T normcdfinv(T p) {
  if (!(p > 0 && p < 1)) return p == 0 ? (T)-INFINITY : p == 1 ? (T)INFINITY : (T)NAN;
  const long double tail = p < 0.5 ? (long double)p : 1 - (long double)p;
  long double x = std::sqrt(-2 * std::log(tail));  // Newton's method for log erfc, which is concave, from beyond the solution
  for (int i = 0; i < 40; ++i) {
    const long double q = std::erfc(x * (long double)M_SQRT1_2l) / 2;
    x += std::log(q / tail) * q / (std::exp(-x * x / 2) * 0.3989422804014326779l);
  }
  return (T)(p < 0.5 ? -x : x);
}
template <class T> T erfcx(T x) {
  if (x < 6) return (T)(std::exp((long double)x * x) * std::erfc((long double)x));
  double tail = x;
  for (int k = 60; k > 0; --k) tail = x + k / 2. / tail;
  return (T)(1 / (tail * std::sqrt(M_PI)));
}
template <class T> T sinpi(T x) {
  const T r = std::remainder(x, (T)2);  // exact
  return (T)std::sin(M_PI * (std::fabs(r) > (T)0.5 ? std::copysign(1 - std::fabs(r), r) : r));
}
template <class T> T cospi(T x) { return sinpi((T)0.5 - std::fabs(std::remainder(x, (T)2))); }
template <class T> T cyl_bessel_i0(T x) { return (T)emu::cyl_bessel_i(0, std::fabs((double)x)); }
template <class T> T cyl_bessel_i1(T x) { return (T)std::copysign(emu::cyl_bessel_i(1, std::fabs((double)x)), (double)x); }
