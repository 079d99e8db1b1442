// Operations along rows: softmax, cross-entropy, normalization. T: the type of the elements; all arithmetic is in C, at least float.
//
// A row has `cols` elements, `inner` apart; with inner > 1, that many rows are interleaved. `lanes` threads work on a row, and `side` rows
// are side by side in neighboring threads; both are powers of 2. `wide`: rows are contiguous, and can be read 16 bytes at a time.

typedef computed<T> C;
constexpr int WIDE = 16 / sizeof(T), HELD = 4;

// The row of a thread, and what is the thread's of it. A thread without a row has no elements, but comes to the barriers.
struct Place {
  int64_t row, start, step, cols;
  int lane, lanes, side, thread;  // thread: its number among those of the rows beside one another
  C* shared;                      // an element for each thread
  INLINE Place(int64_t rows, int64_t cols, int64_t inner, int lanes, int side, C* shared)
      : step(inner), lanes(lanes), side(side), shared(shared) {
    thread = threadIdx.x & (lanes * side - 1);
    lane = thread / side;
    row = ((int64_t)blockIdx.x * (blockDim.x / (lanes * side)) + threadIdx.x / (lanes * side)) * side + thread % side;
    start = inner > 1 ? row / inner * cols * inner + row % inner : row * cols;
    this->cols = row < rows ? cols : 0;
  }
  INLINE bool first() const { return lane == 0 && cols > 0; }

  // Merge a value of each thread of the row, always in the same order; all of them get the result.
  template <class F> INLINE C over(C value, F merge) const {
    __syncthreads();  // the last result has been read
    shared[threadIdx.x] = value;
    for (int s = lanes * side / 2; s >= side; s /= 2) {
      __syncthreads();
      if (thread < s) shared[threadIdx.x] = merge(shared[threadIdx.x], shared[threadIdx.x + s]);
    }
    __syncthreads();
    return shared[threadIdx.x - lane * side];
  }
  INLINE C sum(C value) const { return over(value, [](C a, C b) { return a + b; }); }
  INLINE C top(C value) const { return over(value, [](C a, C b) { return largest(a, b); }); }

  template <int N> INLINE void put(T* out, int64_t j, const Vec<C, N>& values) const {
    Vec<T, N> v;
    for (int n = 0; n < N; ++n) v.v[n] = down<T>(values.v[n]);
    store<N>(out + start + j * step, v);
  }
};

// The elements of a thread in its row of M arrays. The first of them stay in registers; the others are read again at each visit.
template <int N, int M> struct Row {
  const Place& at;
  const T* from[M];
  Vec<T, N> held[HELD][M];
  INLINE Row(const Place& at, const T* x, const T* y = nullptr) : at(at) {
    from[0] = x + at.start;
    if (M > 1) from[M - 1] = y + at.start;
    #pragma unroll
    for (int u = 0; u < HELD; ++u) if (place(u) < at.cols) read(held[u], place(u));
  }
  INLINE int64_t place(int64_t u) const { return (u * at.lanes + at.lane) * N; }
  INLINE void read(Vec<T, N>* v, int64_t j) const {
    for (int m = 0; m < M; ++m) v[m] = load<N>(from[m] + j * at.step);
  }
  // Calls f(j, values) for every N elements, of which j is the first place and values[m] those of array m.
  template <class F> INLINE void visit(F f) const {
    auto with = [&](int64_t j, const Vec<T, N>* v) {
      Vec<C, N> values[M];
      for (int m = 0; m < M; ++m) for (int n = 0; n < N; ++n) values[m].v[n] = up(v[m].v[n]);
      f(j, values);
    };
    #pragma unroll
    for (int u = 0; u < HELD; ++u) if (place(u) < at.cols) with(place(u), held[u]);
    for (int64_t j = place(HELD); j < at.cols; j += (int64_t)at.lanes * N) {
      Vec<T, N> v[M];
      read(v, j);
      with(j, v);
    }
  }
};

// -- softmax and cross-entropy -----------------------------------------------------------------------------------------------

template <int N> INLINE C top_of(const Row<N, 1>& row) {
  C top = -INFINITY;
  row.visit([&](int64_t, const Vec<C, N>* x) {
    for (int n = 0; n < N; ++n) top = largest(top, x[0].v[n]);
  });
  return row.at.top(top);
}

template <int N> INLINE C sum_of(const Row<N, 1>& row, C top) {
  C sum = 0;
  row.visit([&](int64_t, const Vec<C, N>* x) {
    for (int n = 0; n < N; ++n) sum += exp(x[0].v[n] - top);
  });
  return row.at.sum(sum);
}

template <int N, bool LOG> INLINE void softmax_of(const Place& at, const T* x, T* y) {
  const Row<N, 1> row(at, x);
  const C top = top_of(row), sum = sum_of(row, top), scale = LOG ? log(sum) : 1 / sum;
  row.visit([&](int64_t j, const Vec<C, N>* x) {
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) out.v[n] = LOG ? x[0].v[n] - top - scale : exp(x[0].v[n] - top) * scale;
    at.put(y, j, out);
  });
}

// The gradient of x, from that of the result y.
template <int N, bool LOG> INLINE void softmax_back_of(const Place& at, const T* g, const T* y, T* d) {
  const Row<N, 2> row(at, g, y);
  C sum = 0;
  row.visit([&](int64_t, const Vec<C, N>* v) {
    for (int n = 0; n < N; ++n) sum += LOG ? v[0].v[n] : v[0].v[n] * v[1].v[n];
  });
  sum = at.sum(sum);
  row.visit([&](int64_t j, const Vec<C, N>* v) {
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) out.v[n] = LOG ? v[0].v[n] - exp(v[1].v[n]) * sum : v[1].v[n] * (v[0].v[n] - sum);
    at.put(d, j, out);
  });
}

template <int N> INLINE void log_sum_exp_of(const Place& at, const T* x, C* lse) {
  const Row<N, 1> row(at, x);
  const C top = top_of(row), sum = sum_of(row, top);
  if (at.first()) lse[at.row] = log(sum) + top;
}

// scale * softmax(x) - g at the target of each row, the gradient of cross-entropy.
template <int N> INLINE void softmax_minus_of(
    const Place& at, const T* x, const C* lse, const C* scale, const C* g, const int64_t* target, int64_t ignore, T* d) {
  if (at.cols == 0) return;
  const C log_sum = lse[at.row], s = scale[at.row], less = g[at.row];
  const int64_t where = target[at.row] == ignore ? -1 : target[at.row];
  Row<N, 1>(at, x).visit([&](int64_t j, const Vec<C, N>* x) {
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) out.v[n] = exp(x[0].v[n] - log_sum) * s - (j + n == where ? less : 0);
    at.put(d, j, out);
  });
}

// -- normalization -----------------------------------------------------------------------------------------------------------

// The elements of p that belong to N neighboring elements: one for all, or each its own; `absent` without p.
template <int N> INLINE Vec<C, N> beside(const C* p, int64_t k, bool same, C absent) {
  if (p && !same) return load<N>(p + k);
  Vec<C, N> v;
  const C one = p ? p[k] : absent;
  for (int n = 0; n < N; ++n) v.v[n] = one;
  return v;
}

template <int N> INLINE void layer_norm_of(
    const Place& at, const T* x, const C* weight, const C* bias, T* y, C* mean, C* rstd, int64_t cols, double eps) {
  const Row<N, 1> row(at, x);
  C total = 0, rest = 0, squares = 0;
  row.visit([&](int64_t, const Vec<C, N>* x) {
    for (int n = 0; n < N; ++n) total += x[0].v[n];
  });
  const C middle = at.sum(total) / cols;
  row.visit([&](int64_t, const Vec<C, N>* x) {
    for (int n = 0; n < N; ++n) {
      const C apart = x[0].v[n] - middle;
      rest += apart;
      squares += apart * apart;
    }
  });
  rest = at.sum(rest) / cols;  // 0 but for the rounding of the mean
  squares = at.sum(squares) / cols - rest * rest;
  const C r = 1 / sqrt((squares > 0 ? squares : squares * 0) + (C)eps);
  if (at.first()) mean[at.row] = middle + rest, rstd[at.row] = r;
  row.visit([&](int64_t j, const Vec<C, N>* x) {
    const Vec<C, N> w = beside<N>(weight, j, false, 1), b = beside<N>(bias, j, false, 0);
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) out.v[n] = (x[0].v[n] - middle - rest) * r * w.v[n] + b.v[n];
    at.put(y, j, out);
  });
}

// rstd (c - unit mean(c unit)), with unit = (x - mean) rstd and c = g weight - mean(g weight): the rounding of x's mean hardly matters.
template <int N> INLINE void layer_norm_input_of(
    const Place& at, const T* g, const T* x, const C* mean, const C* rstd, const C* weight, T* d, int64_t cols) {
  const Row<N, 2> row(at, g, x);
  const C m = at.cols ? mean[at.row] : 0, r = at.cols ? rstd[at.row] : 0;
  C total = 0, product = 0;
  row.visit([&](int64_t j, const Vec<C, N>* v) {
    const Vec<C, N> w = beside<N>(weight, j, false, 1);
    for (int n = 0; n < N; ++n) total += v[0].v[n] * w.v[n];
  });
  const C middle = at.sum(total) / cols;
  row.visit([&](int64_t j, const Vec<C, N>* v) {
    const Vec<C, N> w = beside<N>(weight, j, false, 1);
    for (int n = 0; n < N; ++n) product += (v[0].v[n] * w.v[n] - middle) * (v[1].v[n] - m);
  });
  const C slope = at.sum(product) / cols * r * r;
  row.visit([&](int64_t j, const Vec<C, N>* v) {
    const Vec<C, N> w = beside<N>(weight, j, false, 1);
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) out.v[n] = (v[0].v[n] * w.v[n] - middle - (v[1].v[n] - m) * slope) * r;
    at.put(d, j, out);
  });
}

// The same with given statistics, each of them for a whole row or for one of its elements. Statistic k belongs to (outer, inner) of an array
// (outer, runs, inner, length); rows are along `length` or, if that is 1, along `inner`.
struct Statistics {
  int64_t k;
  bool same;
  INLINE Statistics(const Place& at, int64_t runs, int64_t inner, bool same) : same(same) {
    k = same ? at.row / (runs * inner) * inner + at.row % inner : at.row / runs * inner;
  }
  template <int N> INLINE Vec<C, N> of(const C* p, int64_t j, C absent = 0) const { return beside<N>(p, same ? k : k + j, same, absent); }
};

template <int N> INLINE void scale_of(
    const Place& at, const Statistics& s, const T* x, const C* mean, const C* rstd, const C* rest, const C* weight, const C* bias, T* y) {
  Row<N, 1>(at, x).visit([&](int64_t j, const Vec<C, N>* x) {
    const auto m = s.of<N>(mean, j), r = s.of<N>(rstd, j), o = s.of<N>(rest, j), w = s.of<N>(weight, j, 1), b = s.of<N>(bias, j);
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) out.v[n] = (x[0].v[n] - m.v[n] - o.v[n]) * r.v[n] * w.v[n] + b.v[n];
    at.put(y, j, out);
  });
}

// total, product: sums of g and of g unit, over n elements.
template <int N> INLINE void scale_input_of(
    const Place& at, const Statistics& s, const T* g, const T* x, const C* mean, const C* rstd, const C* total, const C* product,
    const C* weight, double n, T* d) {
  const C share = 1 / (C)n;
  Row<N, 2>(at, g, x).visit([&](int64_t j, const Vec<C, N>* v) {
    const auto m = s.of<N>(mean, j), r = s.of<N>(rstd, j), t = s.of<N>(total, j), p = s.of<N>(product, j), w = s.of<N>(weight, j, 1);
    Vec<C, N> out;
    for (int n = 0; n < N; ++n) {
      const C unit = (v[1].v[n] - m.v[n]) * r.v[n];
      out.v[n] = (v[0].v[n] - t.v[n] * share - unit * (p.v[n] * share)) * r.v[n] * w.v[n];
    }
    at.put(d, j, out);
  });
}

// -- kernels -----------------------------------------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(512) softmax(
    const T* x, T* y,
    int64_t rows, int64_t cols, int64_t inner, int lanes, int side, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, inner, lanes, side, shared);
  wide ? softmax_of<WIDE, false>(at, x, y) : softmax_of<1, false>(at, x, y);
}
extern "C" __global__ void __launch_bounds__(512) log_softmax(
    const T* x, T* y,
    int64_t rows, int64_t cols, int64_t inner, int lanes, int side, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, inner, lanes, side, shared);
  wide ? softmax_of<WIDE, true>(at, x, y) : softmax_of<1, true>(at, x, y);
}
extern "C" __global__ void __launch_bounds__(512) softmax_back(
    const T* g, const T* y, T* d,
    int64_t rows, int64_t cols, int64_t inner, int lanes, int side, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, inner, lanes, side, shared);
  wide ? softmax_back_of<WIDE, false>(at, g, y, d) : softmax_back_of<1, false>(at, g, y, d);
}
extern "C" __global__ void __launch_bounds__(512) log_softmax_back(
    const T* g, const T* y, T* d,
    int64_t rows, int64_t cols, int64_t inner, int lanes, int side, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, inner, lanes, side, shared);
  wide ? softmax_back_of<WIDE, true>(at, g, y, d) : softmax_back_of<1, true>(at, g, y, d);
}
extern "C" __global__ void __launch_bounds__(512) log_sum_exp(
    const T* x, C* lse,
    int64_t rows, int64_t cols, int64_t inner, int lanes, int side, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, inner, lanes, side, shared);
  wide ? log_sum_exp_of<WIDE>(at, x, lse) : log_sum_exp_of<1>(at, x, lse);
}
extern "C" __global__ void __launch_bounds__(512) softmax_minus(
    const T* x, const C* lse, const C* scale, const C* g, const int64_t* target, int64_t ignore, T* d,
    int64_t rows, int64_t cols, int64_t inner, int lanes, int side, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, inner, lanes, side, shared);
  wide ? softmax_minus_of<WIDE>(at, x, lse, scale, g, target, ignore, d) : softmax_minus_of<1>(at, x, lse, scale, g, target, ignore, d);
}
extern "C" __global__ void __launch_bounds__(512) layer_norm(
    const T* x, const C* weight, const C* bias, double eps, T* y, C* mean, C* rstd,
    int64_t rows, int64_t cols, int lanes, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, 1, lanes, 1, shared);
  if (wide) layer_norm_of<WIDE>(at, x, weight, bias, y, mean, rstd, cols, eps);
  else layer_norm_of<1>(at, x, weight, bias, y, mean, rstd, cols, eps);
}
extern "C" __global__ void __launch_bounds__(512) layer_norm_input(
    const T* g, const T* x, const C* mean, const C* rstd, const C* weight, T* d,
    int64_t rows, int64_t cols, int lanes, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, 1, lanes, 1, shared);
  wide ? layer_norm_input_of<WIDE>(at, g, x, mean, rstd, weight, d, cols) : layer_norm_input_of<1>(at, g, x, mean, rstd, weight, d, cols);
}
extern "C" __global__ void __launch_bounds__(512) scale(
    const T* x, const C* mean, const C* rstd, const C* rest, const C* weight, const C* bias, T* y,
    int64_t rows, int64_t cols, int64_t runs, int64_t inner, bool same, int lanes, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, 1, lanes, 1, shared);
  const Statistics s(at, runs, inner, same);
  wide ? scale_of<WIDE>(at, s, x, mean, rstd, rest, weight, bias, y) : scale_of<1>(at, s, x, mean, rstd, rest, weight, bias, y);
}
extern "C" __global__ void __launch_bounds__(512) scale_input(
    const T* g, const T* x, const C* mean, const C* rstd, const C* total, const C* product, const C* weight, double n, T* d,
    int64_t rows, int64_t cols, int64_t runs, int64_t inner, bool same, int lanes, bool wide) {
  __shared__ C shared[512];
  const Place at(rows, cols, 1, lanes, 1, shared);
  const Statistics s(at, runs, inner, same);
  if (wide) scale_input_of<WIDE>(at, s, g, x, mean, rstd, total, product, weight, n, d);
  else scale_input_of<1>(at, s, g, x, mean, rstd, total, product, weight, n, d);
}
