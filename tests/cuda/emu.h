// CUDA's words for a C++ compiler, enough to run a kernel's own text on the CPU: block by block, each thread a fiber that rests at barriers.
#pragma once
#define EMULATED 1
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <setjmp.h>
#include <string>
#include <ucontext.h>
#include <utility>
#include <vector>
using std::fabs; using std::isfinite; using std::isinf; using std::isnan; using std::lgamma; using std::max; using std::min; using std::signbit;
struct dim3 { unsigned x, y, z; };

namespace emu {
inline float half_to_float(uint16_t bits) { _Float16 h; memcpy(&h, &bits, 2); return (float)h; }
inline uint16_t float_to_half(float x) { _Float16 h = (_Float16)x; uint16_t bits; memcpy(&bits, &h, 2); return bits; }

struct Barrier { int arrived = 0; unsigned turn = 0; const char* line = nullptr; };
struct Fiber { dim3 tid; int lane, warp, index; enum { READY, WAITS, DONE } state; const char* at; ucontext_t first; jmp_buf here; bool begun; Barrier* waits; unsigned turn; };
inline dim3 grid, block, bid;
inline Fiber* now;
inline jmp_buf home;
inline std::string fault;
inline std::vector<Fiber> fibers;
inline std::vector<std::vector<char>> stacks;
inline std::vector<uint64_t> slots;  // what the lanes of a warp exchange
inline Barrier whole;
inline std::vector<Barrier> warps;
inline void (*body)(void*);
inline void* body_arguments;
inline unsigned seed = 0;  // the order of blocks and threads: 0 ascending, 1 descending, others shuffled
constexpr size_t STACK = 64 * 1024, SHARED = 232448;

inline void entry() { body(body_arguments); now->state = Fiber::DONE; _longjmp(home, 1); }
inline void pause() { if (!_setjmp(now->here)) _longjmp(home, 1); }
// All n threads must come, each from the same line.
inline void meet(Barrier& b, int n, const char* at) {
  if (b.arrived == 0) b.line = at;
  else if (strcmp(b.line, at) && fault.empty()) fault = std::string("threads meet at different barriers: ") + b.line + " and " + at;
  if (++b.arrived == n) { b.arrived = 0; ++b.turn; return; }
  now->waits = &b; now->turn = b.turn; now->at = at; now->state = Fiber::WAITS;
  pause();
}
inline void sync(const char* at) { meet(whole, (int)fibers.size(), at); }
template <class T> T exchange(unsigned mask, T v, int from, const char* at) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  const int w = now->warp, n = std::min(32, (int)fibers.size() - 32 * w);
  if (mask != 0xffffffffu && fault.empty()) fault = std::string(at) + ": only full warps are emulated";
  if (n < 32 && fault.empty()) fault = std::string(at) + ": a full-mask shuffle in a warp of " + std::to_string(n) + " threads";
  memcpy(&slots[now->index], &v, sizeof(T)); meet(warps[w], n, at);
  T r = v; if (from >= 0 && from < n) memcpy(&r, &slots[32 * w + from], sizeof(T));
  meet(warps[w], n, at); return r;
}

extern "C" char __start_emu_shared[] __attribute__((weak)); extern "C" char __stop_emu_shared[] __attribute__((weak));
alignas(128) inline char dynamic_memory[SHARED];
// Blocks run one after another. Shared memory begins as nan, so that reading what was never written shows.
inline int run_block(bool fibrous, size_t shared) {
  const int n = block.x * block.y * block.z;
  if (__start_emu_shared) memset(__start_emu_shared, 0xff, __stop_emu_shared - __start_emu_shared);
  memset(dynamic_memory, 0xff, std::min(shared + 64, SHARED));
  fibers.assign(n, Fiber{}); slots.assign(n, ~0ull); whole = Barrier{}; warps.assign((n + 31) / 32, Barrier{});
  std::vector<int> order(n);
  for (int i = 0; i < n; ++i) {
    auto& f = fibers[i];
    f.index = order[i] = i; f.tid = {i % block.x, i / block.x % block.y, i / (block.x * block.y)}; f.lane = i % 32; f.warp = i / 32;
  }
  if (seed == 1) std::reverse(order.begin(), order.end()); else if (seed > 1) { std::mt19937 r(seed); std::shuffle(order.begin(), order.end(), r); }
  if (!fibrous) { for (int i : order) { now = &fibers[i]; body(body_arguments); } return 0; }
  if ((int)stacks.size() < n) stacks.resize(n);
  volatile int left = n;
  while (left) {
    volatile bool moved = false;
    for (volatile int k = 0; k < n; k = k + 1) {
      Fiber& f = fibers[order[k]];
      if (f.state == Fiber::DONE || (f.state == Fiber::WAITS && f.waits->turn == f.turn)) continue;
      moved = true; now = &f; f.state = Fiber::READY;
      if (!_setjmp(home)) {
        if (f.begun) _longjmp(f.here, 1);
        f.begun = true;
        auto& s = stacks[f.index]; if (s.empty()) s.resize(STACK);
        getcontext(&f.first); f.first.uc_stack.ss_sp = s.data(); f.first.uc_stack.ss_size = STACK; f.first.uc_link = nullptr;
        makecontext(&f.first, entry, 0); setcontext(&f.first);
      }
      if (now->state == Fiber::DONE) left = left - 1;
    }
    if (!moved) {
      for (auto& f : fibers) if (f.state == Fiber::WAITS) { fault = std::string("deadlock: some threads wait at ") + f.at + ", others never come"; break; }
      return 1;
    }
    if (!fault.empty()) return 1;
  }
  return fault.empty() ? 0 : 1;
}
template <class A> A argument(const void* p) { A x; memcpy(&x, p, sizeof(A)); return x; }  // the driver copies them, at any address
template <class... A, size_t... I> void invoke(void (*k)(A...), void** a, std::index_sequence<I...>) { k(argument<A>(a[I])...); }
template <class... A> int launch(void (*k)(A...), bool fibrous, const unsigned* g, const unsigned* b, size_t shared, void** arguments) {
  struct Bound { void (*k)(A...); void** arguments; } bound{k, arguments};
  body = [](void* p) { auto* x = (Bound*)p; invoke(x->k, x->arguments, std::index_sequence_for<A...>{}); }; body_arguments = &bound;
  grid = {g[0], g[1], g[2]}; block = {b[0], b[1], b[2]}; fault.clear();
  if (!g[0] || !g[1] || !g[2] || g[1] > 65535 || g[2] > 65535) { fault = "an invalid grid"; return 1; }
  if (!(b[0] * b[1] * b[2]) || b[0] * b[1] * b[2] > 1024 || shared > SHARED) { fault = "an invalid block"; return 1; }
  const long n = (long)g[0] * g[1] * g[2]; std::vector<long> order(n); for (long i = 0; i < n; ++i) order[i] = i;
  if (seed == 1) std::reverse(order.begin(), order.end()); else if (seed > 1) { std::mt19937 r(seed); std::shuffle(order.begin(), order.end(), r); }
  for (long i : order) { bid = {(unsigned)(i % g[0]), (unsigned)(i / g[0] % g[1]), (unsigned)(i / ((long)g[0] * g[1]))}; if (run_block(fibrous, shared)) return 1; }
  return 0;
}
template <class... A> std::vector<int> sizes(void (*)(A...)) { return {(int)sizeof(A)...}; }
}  // namespace emu
extern "C" {
inline __attribute__((used)) const char* emu_fault() { return emu::fault.c_str(); }
inline __attribute__((used)) void emu_seed(unsigned s) { emu::seed = s; }
}
#define EMU_EXPORT(NAME, FIBROUS) \
  extern "C" int emu_launch_##NAME(const unsigned* g, const unsigned* b, size_t shared, void** arguments) { return emu::launch(&NAME, FIBROUS, g, b, shared, arguments); } \
  extern "C" int emu_sizes_##NAME(int* out) { auto s = emu::sizes(&NAME); for (size_t i = 0; i < s.size(); ++i) out[i] = s[i]; return (int)s.size(); }
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
template <class T> T atomicMax(T* p, T v) { T o = *p; *p = std::max(o, v); return o; }
template <class T> T atomicCAS(T* p, T expected, T v) { T o = *p; if (o == expected) *p = v; return o; }
template <class T> T __ldg(const T* p) { return *p; }
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }

// functions that CUDA has and C++ has not
template <class T> T cospi(T x) { return (T)std::cos(M_PI * (double)x); }
template <class T> T sinpi(T x) { return (T)std::sin(M_PI * (double)x); }
template <class T> T normcdf(T x) { return (T)(0.5 * std::erfc(-(double)x * M_SQRT1_2)); }
template <class T> T erfinv(T y) {
  if (!(y > -1 && y < 1)) return y == 1 ? (T)INFINITY : y == -1 ? (T)-INFINITY : (T)NAN;
  const double a = 2 / (M_PI * 0.147), w = std::log1p(-(double)y * y), s = a + w / 2;
  double x = std::copysign(std::sqrt(std::sqrt(s * s - w / 0.147) - s), (double)y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) / (M_2_SQRTPI * std::exp(-x * x));
  return (T)x;
}
template <class T> T normcdfinv(T p) { return (T)(M_SQRT2 * erfinv<double>(2 * (double)p - 1)); }
template <class T> T erfcx(T x) { return x < 25 ? (T)(std::exp((double)x * x) * std::erfc((double)x)) : (T)(1 / (x * std::sqrt(M_PI))); }
template <class T> T cyl_bessel_i0(T x) { return (T)std::cyl_bessel_i(0.0, std::fabs((double)x)); }
template <class T> T cyl_bessel_i1(T x) { return (T)std::copysign(std::cyl_bessel_i(1.0, std::fabs((double)x)), (double)x); }
