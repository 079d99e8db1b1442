// The emulator's scheduler: it runs the blocks of a launch one after another, and the threads of a block as fibers.
#include <cmath>  // with its special functions, which emu.h leaves out
#include "emu.h"
#include <algorithm>
#include <random>
#include <setjmp.h>
#include <stdlib.h>
#include <string>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace emu {
struct Barrier { int arrived = 0; unsigned turn = 0; const char* line = nullptr; };
struct Fiber : Thread {
  int warp, index;
  enum { READY, WAITS, DONE } state;
  const char* at;  // where it waits
  Barrier* waits;
  unsigned turn;
  char* stack = nullptr;
  bool begun = false;  // whether it has a context, which it keeps for the next block: to make one takes longer than most kernels
  jmp_buf here;
};
constexpr size_t STACK = 256 * 1024, GUARD = 4096, SHARED = 232448;
constexpr int MOST = 1024;  // threads of a block

Thread* now;
dim3 grid, block, bid;
alignas(128) char dynamic_memory[SHARED];
static jmp_buf home;
static std::string fault;
static Fiber fibers[MOST];
static int threads;                  // of the block: that many fibers
static uint64_t slots[2][MOST];      // what the lanes of a warp exchange, in turns: a lane may be one exchange ahead of the others
static Barrier whole, warps[MOST / 32];
static void (*body)(void*);
static void* body_arguments;
static unsigned seed = 0;  // the order of blocks and threads: 0 ascending, 1 descending, others shuffled

static Fiber& running() { return *static_cast<Fiber*>(now); }
static void entry() {
  for (;;) {
    body(body_arguments);
    running().state = Fiber::DONE;
    if (!_setjmp(running().here)) _longjmp(home, 1);
  }
}
// All n threads must come, each from the same line.
static void meet(Barrier& b, int n, const char* at) {
  if (b.arrived == 0) b.line = at;
  else if (strcmp(b.line, at) && fault.empty()) fault = std::string("threads meet at different barriers: ") + b.line + " and " + at;
  if (++b.arrived == n) { b.arrived = 0; ++b.turn; return; }
  Fiber& f = running();
  f.waits = &b; f.turn = b.turn; f.at = at; f.state = Fiber::WAITS;
  if (!_setjmp(f.here)) _longjmp(home, 1);
}
void sync(const char* at) { meet(whole, threads, at); }
uint64_t exchange_bits(unsigned mask, uint64_t bits, int from, const char* at) {
  const int w = running().warp, n = std::min(32, threads - 32 * w);
  if (mask != 0xffffffffu && fault.empty()) fault = std::string(at) + ": only full warps are emulated";
  if (n < 32 && fault.empty()) fault = std::string(at) + ": a full-mask shuffle in a warp of " + std::to_string(n) + " threads";
  uint64_t* const here = slots[warps[w].turn % 2];
  here[running().index] = bits;
  meet(warps[w], n, at);
  return from >= 0 && from < n ? here[32 * w + from] : bits;
}

double cyl_bessel_i(double order, double x) { return std::cyl_bessel_i(order, x); }

// A stack ends at a page that cannot be touched, so that one that is too small is a fault and not another's memory.
static char* new_stack() {
  char* found = (char*)mmap(nullptr, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED || mprotect(found, GUARD, PROT_NONE)) abort();
  return found + GUARD;
}
template <class T> static std::vector<T> order(T n) {
  std::vector<T> found(n);
  for (T i = 0; i < n; ++i) found[i] = i;
  if (seed == 1) std::reverse(found.begin(), found.end());
  if (seed > 1) { std::mt19937 r(seed); std::shuffle(found.begin(), found.end(), r); }
  return found;
}
static int run_block(const std::vector<int>& turns, bool fibrous) {
  whole = Barrier{};
  std::fill_n(warps, (threads + 31) / 32, Barrier{});
  for (auto& one : slots) std::fill_n(one, threads, ~0ull);
  for (int i = 0; i < threads; ++i) {
    Fiber& f = fibers[i];
    f.index = i; f.lane = i % 32; f.warp = i / 32; f.tid = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    f.state = Fiber::READY;
  }
  if (!fibrous) { for (int i : turns) { now = &fibers[i]; body(body_arguments); } return 0; }
  volatile int left = threads;
  while (left) {
    volatile bool moved = false;
    for (volatile int k = 0; k < threads; k = k + 1) {
      Fiber& f = fibers[turns[k]];
      if (f.state == Fiber::DONE || (f.state == Fiber::WAITS && f.waits->turn == f.turn)) continue;
      moved = true; now = &f; f.state = Fiber::READY;
      if (!_setjmp(home)) {
        if (f.begun) _longjmp(f.here, 1);
        f.begun = true;
        if (!f.stack) f.stack = new_stack();
        ucontext_t first;
        getcontext(&first); first.uc_stack.ss_sp = f.stack; first.uc_stack.ss_size = STACK; first.uc_link = nullptr;
        makecontext(&first, entry, 0); setcontext(&first);
      }
      if (running().state == Fiber::DONE) left = left - 1;
    }
    if (!moved && fault.empty())
      for (int i = 0; i < threads; ++i)
        if (fibers[i].state == Fiber::WAITS) { fault = std::string("deadlock: some threads wait at ") + fibers[i].at + ", others never come"; break; }
    if (!fault.empty()) { for (Fiber& f : fibers) f.begun = false; return 1; }  // they are in the middle of the kernel
  }
  return 0;
}
int run(void (*run_body)(void*), void* arguments, bool fibrous, const unsigned* g, const unsigned* b, size_t shared, char* first, char* last) {
  body = run_body; body_arguments = arguments;
  grid = {g[0], g[1], g[2]}; block = {b[0], b[1], b[2]}; fault.clear();
  if (!g[0] || !g[1] || !g[2] || g[1] > 65535 || g[2] > 65535) { fault = "an invalid grid"; return 1; }
  if (!(b[0] * b[1] * b[2]) || b[0] * b[1] * b[2] > MOST || shared > SHARED) { fault = "an invalid block"; return 1; }
  threads = b[0] * b[1] * b[2];
  const std::vector<int> turns = order(threads);
  for (long i : order((long)g[0] * g[1] * g[2])) {
    bid = {(unsigned)(i % g[0]), (unsigned)(i / g[0] % g[1]), (unsigned)(i / ((long)g[0] * g[1]))};
    if (first) memset(first, 0xff, last - first);  // shared memory begins as nan, so that reading what was never written shows
    memset(dynamic_memory, 0xff, std::min(shared + 64, SHARED));
    if (run_block(turns, fibrous)) return 1;
  }
  return 0;
}
}  // namespace emu
extern "C" {
const char* emu_fault() { return emu::fault.c_str(); }
void emu_seed(unsigned s) { emu::seed = s; }
}
