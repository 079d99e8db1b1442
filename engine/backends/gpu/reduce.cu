// Reductions: R is one of the structs below, T the type of the elements.
//
// An array is seen as (outer, runs, inner, length), where `runs` and `length` are reduced, and each (outer, inner) is an output. `rows`
// gives an output to neighboring threads, which read along `length`. `columns` is for a length of 1: neighboring threads have
// neighboring outputs. Where outputs are few, each is reduced in several parts, which `merge` puts together in a fixed order.

// -- types -------------------------------------------------------------------------------------------------------------------

// The types in which elements of type C are summed and their means and norms computed, and those of the results for elements of type T.
template <typename C> struct Types {  // integers and bools
  typedef uint64_t Sum;               // overflow wraps
  typedef double Float, Real;
  template <typename T> struct Of { typedef uint64_t Sum; typedef double Float, Real; };
};
template <typename C> struct FloatTypes {
  typedef C Sum, Float, Real;
  template <typename T> struct Of { typedef T Sum, Float, Real; };
};
template <> struct Types<float> : FloatTypes<float> {};
template <> struct Types<double> : FloatTypes<double> {};
template <typename S> struct Types<cplx<S>> {
  typedef cplx<S> Sum, Float;
  typedef S Real;
  template <typename T> struct Of { typedef T Sum, Float; typedef S Real; };
};
typedef computed<T> C;
typedef Types<C>::Float Float;
typedef Types<C>::Real Real;
typedef Types<C>::Of<T> Results;

template <typename C> struct Limits {
  static INLINE C lowest() { return (C)-1 < (C)0 ? (C)((uint64_t)1 << (8 * sizeof(C) - 1)) : (C)0; }
  static INLINE C highest() { return (C)~(uint64_t)lowest(); }
};
template <typename C> struct FloatLimits {
  static INLINE C lowest() { return -INFINITY; }
  static INLINE C highest() { return INFINITY; }
};
template <> struct Limits<float> : FloatLimits<float> { static INLINE float finite() { return 3.402823466e+38f; } };
template <> struct Limits<double> : FloatLimits<double> { static INLINE double finite() { return 1.7976931348623157e+308; } };

template <typename S> INLINE S real(S x) { return x; }
template <typename S> INLINE S real(cplx<S> x) { return x.re; }
template <typename S> INLINE S size(S x) { return fabs(x); }
template <typename S> INLINE S size(cplx<S> x) { return magnitude(x); }
template <typename S> INLINE S real_product(S x, S y) { return x * y; }  // the real part of x conj(y)
template <typename S> INLINE S real_product(cplx<S> x, cplx<S> y) { return x.re * y.re + x.im * y.im; }
template <typename S> INLINE cplx<S> exp(cplx<S> x) { return {exp(x.re) * cos(x.im), exp(x.re) * sin(x.im)}; }
template <typename S> INLINE cplx<S> log(cplx<S> x) { return {log(magnitude(x)), atan2(x.im, x.re)}; }

// -- what is computed --------------------------------------------------------------------------------------------------------
// A reduction accumulates elements in an A, from `empty()` on. `add` gets an element's place among those that are reduced and the output k;
// `write` gets the final A of output k.

struct Array {
  typedef T Item;
  const T *x, *y;  // y, mean, rstd: of reductions of two arrays
  const Real *mean, *rstd;
  double p;
  template <int N> Vec<T, N> load(int64_t i) const { return ::load<N>(x + i); }
};

template <typename S, typename O> struct Adding : Array {
  typedef S A;
  typedef O Out;
  S empty() const { return 0; }
  S merge(S a, S b) const { return a + b; }
  void write(O* out, int64_t k, int64_t, S a) const { out[k] = down<O>(a); }
};
struct Sum : Adding<Types<C>::Sum, Results::Sum> {
  void add(A& a, T x, int64_t, int64_t) const { a = a + (A)up(x); }
};
struct Mean : Adding<Float, Results::Float> {  // p: the number of elements
  void add(A& a, T x, int64_t, int64_t) const { a = a + (A)up(x); }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = down<Out>(a / (A)(Real)p); }
};
struct Count : Adding<int64_t, int64_t> {  // of elements that are not 0
  void add(A& a, T x, int64_t, int64_t) const { a += up(x) != (C)0; }
};
struct Norm1 : Adding<Real, Results::Real> {
  void add(A& a, T x, int64_t, int64_t) const { a += size((Float)up(x)); }
};
struct Norm2 : Adding<Real, Results::Real> {
  void add(A& a, T x, int64_t, int64_t) const { a += real_product((Float)up(x), (Float)up(x)); }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = down<Out>(sqrt(a)); }
};
struct NormP : Adding<Real, Results::Real> {
  void add(A& a, T x, int64_t, int64_t) const { a += pow(size((Float)up(x)), (Real)p); }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = down<Out>(pow(a, (Real)(1 / p))); }
};
struct Prod : Adding<Types<C>::Sum, Results::Sum> {
  A empty() const { return 1; }
  void add(A& a, T x, int64_t, int64_t) const { a = a * (A)up(x); }
  A merge(A a, A b) const { return a * b; }
};
struct All : Adding<bool, bool> {
  bool empty() const { return true; }
  void add(bool& a, T x, int64_t, int64_t) const { a &= up(x) != (C)0; }
  bool merge(bool a, bool b) const { return a & b; }
};
struct Any : Adding<bool, bool> {
  void add(bool& a, T x, int64_t, int64_t) const { a |= up(x) != (C)0; }
  bool merge(bool a, bool b) const { return a | b; }
};

template <typename S, typename O, bool MAX> struct Extreme : Adding<S, O> {  // nan if any element is
  S empty() const { return MAX ? Limits<S>::lowest() : Limits<S>::highest(); }
  S merge(S a, S b) const { return MAX ? largest(a, b) : smallest(a, b); }
  void add(S& a, T x, int64_t, int64_t) const { a = merge(a, up(x)); }
};
struct Max : Extreme<C, T, true> {};
struct Min : Extreme<C, T, false> {};
template <typename S, bool MAX> struct SizeExtreme : Extreme<S, Results::Real, MAX> {
  void add(S& a, T x, int64_t, int64_t) const { a = this->merge(a, size((Float)up(x))); }
};
struct NormMax : SizeExtreme<Real, true> {};
struct NormMin : SizeExtreme<Real, false> {};

template <typename S, bool MAX> struct Where : Array {  // the place of the first extreme; a nan is the extreme
  struct A { S value; int64_t place; };
  typedef int64_t Out;
  static bool beats(S a, S b) { return a != a ? b == b : MAX ? a > b : a < b; }
  A empty() const { return {MAX ? Limits<S>::lowest() : Limits<S>::highest(), 0x7fffffffffffffff}; }
  void add(A& a, T x, int64_t place, int64_t) const { a = merge(a, {up(x), place}); }
  A merge(A a, A b) const { return beats(b.value, a.value) || (!beats(a.value, b.value) && b.place < a.place) ? b : a; }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = a.place; }
};
struct ArgMax : Where<C, true> {};
struct ArgMin : Where<C, false> {};

struct LogSumExp : Array {
  struct A { Real top; Float sum; };  // the sum of exp(x - top); top is finite, so that infinities need no special case
  typedef Results::Float Out;
  A empty() const { return {-Limits<Real>::finite(), 0}; }
  void add(A& a, T x, int64_t, int64_t) const {
    const Float e = (Float)up(x);
    if (real(e) > a.top) {
      const Real top = min(real(e), Limits<Real>::finite());
      a = {top, a.sum * (Float)exp(a.top - top)};
    }
    a.sum = a.sum + (Float)exp(e - (Float)a.top);
  }
  A merge(A a, A b) const {
    const Real top = max(a.top, b.top);
    return {top, a.sum * (Float)exp(a.top - top) + b.sum * (Float)exp(b.top - top)};
  }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = down<Out>((Float)log(a.sum) + (Float)a.top); }
};

// Welford's recurrence, on distances from the first element: the mean's rounding error then matters little where the mean is large.
struct Var : Array {  // p: the number of elements minus the correction, or 0
  struct A { Float shift, mean; Real m2, n; };
  typedef Results::Real Out;
  A empty() const { return {0, 0, 0, 0}; }
  void add(A& a, T x, int64_t, int64_t) const {
    if (a.n == 0) a.shift = (Float)up(x);
    const Float e = (Float)up(x) - a.shift, apart = e - a.mean;
    a.n += 1;
    a.mean = a.mean + apart * (Float)(1 / a.n);
    a.m2 += real_product(apart, e - a.mean);
  }
  A merge(A a, A b) const {
    if (a.n == 0 || b.n == 0) return a.n == 0 ? b : a;
    const Float apart = (b.shift - a.shift) + (b.mean - a.mean);
    const Real n = a.n + b.n, share = b.n / n;
    return {a.shift, a.mean + apart * (Float)share, a.m2 + b.m2 + real_product(apart, apart) * a.n * share, n};
  }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = down<Out>(a.m2 / (Real)p); }
};
struct Std : Var {
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = down<Out>(sqrt(a.m2 / (Real)p)); }
};
struct Moments : Var {  // the mean, 1 / sqrt(variance + p), and what rounding took off the mean
  typedef Real Out;
  void write(Out* out, int64_t k, int64_t outputs, A a) const {
    const Real shift = real(a.shift), rest = real(a.mean), mean = shift + rest;
    out[k] = mean;
    out[k + outputs] = 1 / sqrt(a.m2 / a.n + (Real)p);
    out[k + 2 * outputs] = (shift - mean) + rest;
  }
};

// The gradients of a normalization: x is the gradient of its result, y what was normalized.
struct Pairs : Array {
  struct Item { T g, x; };
  template <int N> Vec<Item, N> load(int64_t i) const {
    const Vec<T, N> g = ::load<N>(x + i), x = ::load<N>(y + i);
    Vec<Item, N> both;
    for (int n = 0; n < N; ++n) both.v[n] = {g.v[n], x.v[n]};
    return both;
  }
};
struct Slopes : Pairs {  // sums of g and of (g - its mean) (y - mean) rstd, with an output's mean and rstd; p: the number of elements
  struct A { Real g, product, rest; };
  typedef Real Out;
  A empty() const { return {0, 0, 0}; }
  void add(A& a, Item e, int64_t, int64_t k) const {
    const Real g = real((Float)up(e.g)), apart = real((Float)up(e.x)) - mean[k];
    a.g += g;
    a.product += g * apart;
    a.rest += apart;  // 0 but for the rounding of the mean
  }
  A merge(A a, A b) const { return {a.g + b.g, a.product + b.product, a.rest + b.rest}; }
  void write(Out* out, int64_t k, int64_t outputs, A a) const {
    out[k] = a.g;
    out[k + outputs] = (a.product - a.g / (Real)p * a.rest) * rstd[k];
  }
};
struct RowSlopes : Pairs {  // sums of g (y - mean) rstd, with the mean and rstd of the place
  typedef Real A, Out;
  A empty() const { return 0; }
  void add(A& a, Item e, int64_t place, int64_t) const {
    a += real((Float)up(e.g)) * (real((Float)up(e.x)) - mean[place]) * rstd[place];
  }
  A merge(A a, A b) const { return a + b; }
  void write(Out* out, int64_t k, int64_t, A a) const { out[k] = a; }
};

// -- kernels -----------------------------------------------------------------------------------------------------------------

typedef R::A A;
typedef R::Out Out;
constexpr int BLOCK = 256, WIDE = 16 / sizeof(T);
static_assert(sizeof(A) <= 48, "the memory for partial results is too small");

// Merge the accumulators of threads with the same number modulo `low`, within each `high` neighboring threads; the first `low` get them.
INLINE A over_threads(const R& r, A a, int high, int low, A* held) {
  __syncthreads();
  held[threadIdx.x] = a;
  for (int s = high / 2; s >= low; s /= 2) {
    __syncthreads();
    if ((threadIdx.x & (high - 1)) < s) held[threadIdx.x] = r.merge(held[threadIdx.x], held[threadIdx.x + s]);
  }
  return held[threadIdx.x];
}

// Reads the vectors first, first + step, ..., counted along runs of `per` vectors, `apart` elements from one run to the next. In `rows` the
// elements of a vector belong to one output k, in `columns` to the outputs from k on.
template <int N, bool ROWS> struct Reader {
  const R& r;
  const int64_t at, k, apart, per, step;
  int64_t run, j, next_run, next_j;
  INLINE Reader(const R& r, int64_t at, int64_t k, int64_t apart, int64_t per, int64_t first, int64_t step, int64_t last)
      : r(r), at(at), k(k), apart(apart), per(per), step(step), run(0), j(first), next_run(0), next_j(step) {
    if (last <= per) return;  // one run
    run = first / per, j -= run * per;
    next_run = step / per, next_j -= next_run * per;
  }
  template <int AHEAD> INLINE void take(A* a) {
    Vec<typename R::Item, N> items[AHEAD];
    int64_t place[AHEAD];
    #pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
      items[u] = r.template load<N>(at + run * apart + j * N);
      place[u] = ROWS ? (run * per + j) * N : run;
      run += next_run, j += next_j;
      if (j >= per) j -= per, ++run;
    }
    #pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
      #pragma unroll
      for (int n = 0; n < N; ++n) r.add(a[n], items[u].v[n], place[u] + (ROWS ? n : 0), k + (ROWS ? 0 : n));
    }
  }
};

// Accumulate all that a thread has, in `total`: one accumulator in `rows`, N in `columns`.
template <int N, bool ROWS> INLINE void accumulate(Reader<N, ROWS> from, A* total, int64_t v, int64_t last) {
  constexpr int AHEAD = N > 1 ? 4 : 8, PAGE = 16;
  while (v < last) {
    A a[N];  // of a page: a sum of sums is more accurate
    for (int n = 0; n < N; ++n) a[n] = from.r.empty();
    int i = 0;
    for (; i < PAGE && v + (AHEAD - 1) * from.step < last; ++i, v += AHEAD * from.step) from.template take<AHEAD>(a);
    if (i < PAGE) for (; v < last; v += from.step) from.template take<1>(a);
    #pragma unroll
    for (int n = 0; n < N; ++n) total[ROWS ? 0 : n] = from.r.merge(total[ROWS ? 0 : n], a[n]);
  }
}

template <int N> INLINE A of_row(const R& r, int64_t k, int64_t part, int64_t runs, int64_t inner, int64_t length, int lanes, int parts) {
  const int64_t at = runs > 1 ? (k / inner * runs * inner + k % inner) * length : k * length;
  const int64_t per = length / N, all = runs * per, share = (all + parts - 1) / parts;
  const int64_t first = part * share + (threadIdx.x & (lanes - 1)), last = min(all, (part + 1) * share);
  A a = r.empty();
  if (first < last) accumulate(Reader<N, true>(r, at, k, inner * length, per, first, lanes, last), &a, first, last);
  return a;
}

// `lanes` threads for each output or part of one, a power of 2 and the whole block if there are parts.
extern "C" __global__ void __launch_bounds__(256) rows(
    const T* x, const T* y, const Real* mean, const Real* rstd, double p, Out* out, A* partial,
    int64_t outputs, int64_t runs, int64_t inner, int64_t length, int lanes, int parts, bool wide) {
  __shared__ A held[BLOCK];
  const R r{x, y, mean, rstd, p};
  const int64_t group = (int64_t)blockIdx.x * (BLOCK / lanes) + threadIdx.x / lanes;
  const int64_t part = parts > 1 ? group / outputs : 0, k = group - part * outputs;
  A a = r.empty();
  if (k < outputs) {
    a = wide ? of_row<WIDE>(r, k, part, runs, inner, length, lanes, parts) : of_row<1>(r, k, part, runs, inner, length, lanes, parts);
  }
  a = over_threads(r, a, lanes, 1, held);
  if (threadIdx.x % lanes || k >= outputs) return;
  if (parts > 1) partial[group] = a;
  else r.write(out, k, outputs, a);
}

template <int N> INLINE void of_columns(
    const R& r, Out* out, A* partial, A* held, int64_t outputs, int64_t runs, int64_t inner, int side, int parts) {
  const int64_t vectors = outputs / N, strips = (vectors + side - 1) / side;
  const int64_t part = blockIdx.x / strips, share = (runs + parts - 1) / parts;
  const int64_t q = (blockIdx.x - part * strips) * side + threadIdx.x % side, k = q * N;
  const int64_t first = part * share + threadIdx.x / side, last = q < vectors ? min(runs, (part + 1) * share) : 0;
  const int64_t at = inner < outputs ? k / inner * runs * inner + k % inner : k;
  A total[N];
  for (int n = 0; n < N; ++n) total[n] = r.empty();
  if (first < last) accumulate(Reader<N, false>(r, at, k, inner, 1, first, BLOCK / side, last), total, first, last);
  for (int n = 0; n < N; ++n) {
    const A a = over_threads(r, total[n], BLOCK, side, held);
    if (threadIdx.x >= side || q >= vectors) continue;
    if (parts > 1) partial[part * outputs + k + n] = a;
    else r.write(out, k + n, outputs, a);
  }
}

// `side` threads beside one another, a power of 2, each with one output or vector of outputs; the others of the block share the runs.
extern "C" __global__ void __launch_bounds__(256) columns(
    const T* x, const T* y, const Real* mean, const Real* rstd, double p, Out* out, A* partial,
    int64_t outputs, int64_t runs, int64_t inner, int side, int parts, bool wide) {
  __shared__ A held[BLOCK];
  const R r{x, y, mean, rstd, p};
  if (wide) of_columns<WIDE>(r, out, partial, held, outputs, runs, inner, side, parts);
  else of_columns<1>(r, out, partial, held, outputs, runs, inner, side, parts);
}

// Put (parts, outputs) partial results together; `side` as in `columns`.
extern "C" __global__ void __launch_bounds__(256) merge(
    const Real* mean, const Real* rstd, double p, Out* out, const A* partial, int64_t outputs, int side, int parts) {
  __shared__ A held[BLOCK];
  const R r{nullptr, nullptr, mean, rstd, p};
  const int64_t k = (int64_t)blockIdx.x * side + threadIdx.x % side;
  A a = r.empty();
  #pragma unroll 8
  for (int part = threadIdx.x / side; part < (k < outputs ? parts : 0); part += BLOCK / side) a = r.merge(a, partial[part * outputs + k]);
  a = over_threads(r, a, BLOCK, side, held);
  if (threadIdx.x < side && k < outputs) r.write(out, k, outputs, a);
}
