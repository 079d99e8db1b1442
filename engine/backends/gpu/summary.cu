// Statistics of whole lists of arrays, and their histograms, in one launch each.
// T: the element type of all arrays; bool is read as uint8_t.
//
// A block takes one piece of one array. All is computed in double precision, of complex numbers for the magnitudes. Parts are put together in
// an order that does not depend on which block ends first, so every run gives the same bits.

constexpr int BLOCK = 256, PIECE = 16384, V = sizeof(T) > 16 ? 1 : 16 / sizeof(T), BINS = 64, FEW = 6;

// Of the finite elements, after the first four counts.
struct Moments {
  double finite = 0, nan = 0, pos_inf = 0, neg_inf = 0, negative = 0, zero = 0;
  double low = INFINITY, high = -INFINITY, mean = 0, squares = 0, size = 0;  // squares: of distances from the mean; size: the mean of |x|
  double large = 0, small = 0;  // sums of (x 2^-600)^2 and (x 2^600)^2, for where those of x^2 overflow or vanish
};

struct Result {
  Moments moments;
  uint64_t few[2 * FEW];  // the first elements, as they are
  uint64_t counts[BINS];
};

struct Row {
  const T* at;
  int64_t result, first, parts;  // the number of its result, of its first part, and of its parts
  double low, high;  // the ends of the histogram; nan: those of the elements
  Layout<int64_t, 1> layout;
};

struct Piece {
  int32_t row, number;  // elements number * PIECE, ... of the row's array
};

template <typename S> INLINE double value(S x) { return (double)up(x); }
template <typename S> INLINE double value(cplx<S> x) { return (double)magnitude(x); }

// Call `use` with each element that this thread has of a piece, in the same order each time.
template <typename Use> INLINE void each(const Row& row, int number, Use use) {
  const Layout<int64_t, 1>& layout = row.layout;
  const int64_t begin = (int64_t)number * PIECE;
  const int size = layout.size - begin < PIECE ? (int)(layout.size - begin) : PIECE;
  if (layout.dims > 1 || (layout.dims == 1 && layout.stride[0][0] != 1)) {
    for (int i = threadIdx.x; i < size; i += BLOCK) {
      int64_t place[1];
      layout.places(begin + i, place);
      use(value(row.at[place[0]]));
    }
    return;
  }
  const T* x = row.at + begin;
  const int whole = (uint64_t)x % (sizeof(T) * V) ? 0 : size / V * V;
  for (int i = threadIdx.x * V; i < whole; i += BLOCK * V) {
    const Vec<T, V> v = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) use(value(v.v[k]));
  }
  for (int i = whole + threadIdx.x; i < size; i += BLOCK) use(value(x[i]));
}

// The moments of two parts together: Chan, Golub and LeVeque, 1979.
INLINE Moments together(Moments a, Moments b) {
  if (a.finite == 0 || b.finite == 0) {
    Moments both = a.finite == 0 ? b : a;
    both.nan = a.nan + b.nan;
    both.pos_inf = a.pos_inf + b.pos_inf;
    both.neg_inf = a.neg_inf + b.neg_inf;
    return both;
  }
  const double n = a.finite + b.finite, gap = b.mean - a.mean, share = b.finite / n;
  Moments both;
  both.finite = n;
  both.nan = a.nan + b.nan;
  both.pos_inf = a.pos_inf + b.pos_inf;
  both.neg_inf = a.neg_inf + b.neg_inf;
  both.negative = a.negative + b.negative;
  both.zero = a.zero + b.zero;
  both.low = a.low < b.low ? a.low : b.low;
  both.high = a.high > b.high ? a.high : b.high;
  both.mean = a.mean + gap * share;
  both.squares = a.squares + b.squares + gap * gap * a.finite * share;
  both.size = a.size + (b.size - a.size) * share;
  both.large = a.large + b.large;
  both.small = a.small + b.small;
  return both;
}

// The moments of all threads of a block, for thread 0.
INLINE Moments over_threads(Moments m, Moments* held) {
  held[threadIdx.x] = m;
  for (int half = BLOCK / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) held[threadIdx.x] = m = together(m, held[threadIdx.x + half]);
  }
  return m;
}

// parts[piece]: the moments of its elements. A thread reads its own twice: for the mean, and for the distances from it.
extern "C" __global__ void __launch_bounds__(BLOCK) moments(const Row* rows, const Piece* pieces, double* parts) {
  __shared__ double held[BLOCK * sizeof(Moments) / sizeof(double)];
  const Piece piece = pieces[blockIdx.x];
  const Row& row = rows[piece.row];
  Moments m;
  double sum = 0, sizes = 0;
  each(row, piece.number, [&](double x) {
    if (!isfinite(x)) {
      if (x != x) ++m.nan;
      else if (x > 0) ++m.pos_inf;
      else ++m.neg_inf;
      return;
    }
    ++m.finite;
    if (x < 0) ++m.negative;
    if (x == 0) ++m.zero;
    if (x < m.low) m.low = x;
    if (x > m.high) m.high = x;
    sum += x;
    sizes += fabs(x);
    if (sizeof(T) >= 8) {
      const double less = x * 0x1p-600, more = x * 0x1p600;
      m.large += less * less;
      m.small += more * more;
    }
  });
  if (m.finite > 0) {
    m.mean = sum / m.finite;
    m.size = sizes / m.finite;
    each(row, piece.number, [&](double x) {
      if (isfinite(x)) m.squares += (x - m.mean) * (x - m.mean);
    });
  }
  m = over_threads(m, reinterpret_cast<Moments*>(held));
  if (threadIdx.x == 0) reinterpret_cast<Moments*>(parts)[blockIdx.x] = m;
}

// results[row]: its parts together, by one block for each row, its first elements, and counts of 0.
extern "C" __global__ void __launch_bounds__(BLOCK) merge(const Row* rows, const double* parts, double* results) {
  __shared__ double held[BLOCK * sizeof(Moments) / sizeof(double)];
  const Row& row = rows[blockIdx.x];
  Result& result = reinterpret_cast<Result*>(results)[row.result];
  const Moments* part = reinterpret_cast<const Moments*>(parts) + row.first;
  Moments m;
  for (int64_t i = threadIdx.x; i < row.parts; i += BLOCK) m = together(m, part[i]);
  m = over_threads(m, reinterpret_cast<Moments*>(held));
  if (threadIdx.x == 0) result.moments = m;
  if (threadIdx.x < BINS) result.counts[threadIdx.x] = 0;
  if (threadIdx.x < FEW && threadIdx.x < row.layout.size) {
    int64_t place[1];
    row.layout.places(threadIdx.x, place);
    memcpy(reinterpret_cast<char*>(result.few) + threadIdx.x * sizeof(T), row.at + place[0], sizeof(T));
  }
}

// Count the finite elements in equal bins between the ends. Ends that are equal are moved apart by 1.
extern "C" __global__ void __launch_bounds__(BLOCK) histogram(const Row* rows, const Piece* pieces, double* results) {
  __shared__ uint32_t counts[BINS];
  const Piece piece = pieces[blockIdx.x];
  const Row& row = rows[piece.row];
  Result& result = reinterpret_cast<Result*>(results)[row.result];
  if (threadIdx.x < BINS) counts[threadIdx.x] = 0;
  __syncthreads();
  double low = row.low == row.low ? row.low : result.moments.low, high = row.high == row.high ? row.high : result.moments.high;
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  const double half = isfinite(high - low) ? 1 : 0.5, span = high * half - low * half, scale = BINS / span;
  each(row, piece.number, [&](double x) {
    if (!isfinite(x)) return;
    const double far = x * half - low * half, at = span == 0 ? 0 : isfinite(scale) ? far * scale : far / span * BINS;
    atomicAdd(&counts[at >= BINS ? BINS - 1 : at > 0 ? (int)at : 0], 1u);
  });
  __syncthreads();
  if (threadIdx.x < BINS && counts[threadIdx.x]) {
    atomicAdd(reinterpret_cast<unsigned long long*>(&result.counts[threadIdx.x]), (unsigned long long)counts[threadIdx.x]);
  }
}
