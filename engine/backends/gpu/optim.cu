// Steps of optimizers, norms and scaling for whole lists of arrays in one launch each.
// T: the element type of all arrays.
//
// A block takes one piece of one array. Rows of the table have up to five addresses, such as a parameter's, its gradient's and those of its
// state, and for Adam that of its step count if it is on the device. In half precision everything is computed in float and rounded once, when it is stored.

constexpr int BLOCK = 512, PIECE = 16384, V = 16 / sizeof(T);
typedef computed<T> C;

struct Row {
  T* at[5];
  float* step;
  int64_t size;
};

struct Piece {
  int32_t row, number;  // elements number * PIECE, ... of the row's arrays
};

// Call `update` with the elements of the first N arrays, at each place of this block's piece, and write back those of the arrays whose bit is
// set in WRITTEN. V elements are moved at once if all addresses allow it.
template <int N, int WRITTEN, typename Update> INLINE void each(const Row* rows, const Piece* pieces, Update update) {
  const Piece piece = pieces[blockIdx.x];
  const Row& row = rows[piece.row];
  const int64_t begin = (int64_t)piece.number * PIECE;
  const int size = row.size - begin < PIECE ? (int)(row.size - begin) : PIECE;
  T* x[N];
  uint64_t addresses = 0;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    x[n] = row.at[n] + begin;
    addresses |= (uint64_t)x[n];
  }
  const int whole = addresses % 16 ? 0 : size / V * V;
  for (int i = threadIdx.x * V; i < whole; i += BLOCK * V) {
    Vec<T, V> v[N];
#pragma unroll
    for (int n = 0; n < N; ++n) v[n] = load<V>(x[n] + i);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      C e[N];
#pragma unroll
      for (int n = 0; n < N; ++n) e[n] = up(v[n].v[k]);
      update(e);
#pragma unroll
      for (int n = 0; n < N; ++n) if (WRITTEN >> n & 1) v[n].v[k] = down<T>(e[n]);
    }
#pragma unroll
    for (int n = 0; n < N; ++n) if (WRITTEN >> n & 1) store<V>(x[n] + i, v[n]);
  }
  for (int i = whole + threadIdx.x; i < size; i += BLOCK) {
    C e[N];
#pragma unroll
    for (int n = 0; n < N; ++n) e[n] = up(x[n][i]);
    update(e);
#pragma unroll
    for (int n = 0; n < N; ++n) if (WRITTEN >> n & 1) x[n][i] = down<T>(e[n]);
  }
}

// -- optimizers: nothing happens if *found is not 0 -------------------------------------------------------------------------------
// Hyperparameters that are on the device are read from `numbers`: lr and, for Adam, the betas.

// Rows: parameter, gradient and, with momentum, the buffer, which is the gradient at its `first` step.
extern "C" __global__ void __launch_bounds__(BLOCK)
sgd(const Row* rows, const Piece* pieces, double lr, double momentum, double dampening, double decay, bool nesterov, bool maximize, bool first,
    const double* numbers, const float* found) {
  if (found && *found != 0) return;
  if (numbers) lr = numbers[0];
  const C step = (C)lr, kept = (C)momentum, taken = (C)(1 - dampening), shrink = (C)decay;
  auto gradient = [=](C p, C g) {
    g = maximize ? -g : g;
    return shrink == 0 ? g : g + shrink * p;
  };
  if (kept == 0) {
    each<2, 1>(rows, pieces, [=](C (&e)[2]) { e[0] -= step * gradient(e[0], e[1]); });
    return;
  }
  each<3, 5>(rows, pieces, [=](C (&e)[3]) {
    const C g = gradient(e[0], e[1]);
    e[2] = first ? g : kept * e[2] + taken * g;
    e[0] -= step * (nesterov ? g + kept * e[2] : e[2]);
  });
}

// Count a step of each row.
extern "C" __global__ void __launch_bounds__(BLOCK) count(const Row* rows, int64_t size, const float* found) {
  const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (i < size && !(found && *found != 0)) *rows[i].step += 1;
}

// Rows: parameter, gradient, the means of the gradient and of its square and, with amsgrad, the largest of the latter. `step` counts from 1,
// and is for rows whose count is not on the device.
extern "C" __global__ void __launch_bounds__(BLOCK)
adam(const Row* rows, const Piece* pieces, double lr, double beta1, double beta2, double eps, double decay, bool decoupled, bool amsgrad,
     bool maximize, double step, const double* numbers, const float* found) {
  __shared__ double corrections[2];
  if (found && *found != 0) return;
  if (numbers) lr = numbers[0], beta1 = numbers[1], beta2 = numbers[2];
  if (threadIdx.x == 0) {
    const float* counted = rows[pieces[blockIdx.x].row].step;
    const double t = counted ? *counted : step;
    corrections[0] = lr / (1 - pow(beta1, t));
    corrections[1] = sqrt(1 - pow(beta2, t));
  }
  __syncthreads();
  const C size = (C)corrections[0], root = (C)corrections[1], new1 = (C)(1 - beta1), old2 = (C)beta2, new2 = (C)(1 - beta2), least = (C)eps;
  const C shrink = (C)(decoupled ? 1 - lr * decay : decay);
  auto means = [=](C& p, C g, C& m, C& v) {
    g = maximize ? -g : g;
    if (decoupled) p *= shrink;
    else if (shrink != 0) g += shrink * p;
    m += new1 * (g - m);
    v = old2 * v + new2 * (g * g);
  };
  auto moved = [=](C p, C m, C v) { return p - m / (sqrt(v) / root + least) * size; };
  if (amsgrad) {
    each<5, 0b11101>(rows, pieces, [=](C (&e)[5]) {
      means(e[0], e[1], e[2], e[3]);
      e[4] = largest(e[4], e[3]);
      e[0] = moved(e[0], e[2], e[4]);
    });
  } else {
    each<4, 0b1101>(rows, pieces, [=](C (&e)[4]) {
      means(e[0], e[1], e[2], e[3]);
      e[0] = moved(e[0], e[2], e[3]);
    });
  }
}

// -- gradients: rows have one address ---------------------------------------------------------------------------------------------

// The sum, or the largest, over the threads of a block, for thread 0; `shared` is memory for one number of each warp.
INLINE double combined(double a, double b, bool most) { return most ? largest(a, b) : a + b; }

INLINE double over_block(double x, bool most, double* shared) {
  for (int d = 16; d; d /= 2) x = combined(x, __shfl_down_sync(0xffffffffu, x, d), most);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) for (int i = 1; i < BLOCK / 32; ++i) x = combined(x, shared[i], most);
  return x;
}

// parts[piece]: the sum of |x|^p over its elements or, if p is infinite, the largest |x|.
extern "C" __global__ void __launch_bounds__(BLOCK) powers(const Row* rows, const Piece* pieces, double* parts, double p) {
  __shared__ double shared[BLOCK / 32];
  double found = 0;
  each<1, 0>(rows, pieces, [&](C (&e)[1]) {
    const double x = fabs((double)e[0]);
    found = combined(found, p == 2 ? x * x : p == 1 || isinf(p) ? x : pow(x, p), isinf(p));
  });
  found = over_block(found, isinf(p), shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = found;
}

// The norm from all parts, by one block.
extern "C" __global__ void __launch_bounds__(BLOCK) root(const double* parts, int64_t count, double* norm, double p) {
  __shared__ double shared[BLOCK / 32];
  double found = 0;
  for (int64_t i = threadIdx.x; i < count; i += BLOCK) found = combined(found, parts[i], isinf(p));
  found = over_block(found, isinf(p), shared);
  if (threadIdx.x == 0) *norm = p == 2 ? sqrt(found) : p == 1 || isinf(p) ? found : pow(found, 1 / p);
}

// Limit to [-most, most]; a nan stays.
extern "C" __global__ void __launch_bounds__(BLOCK) limit(const Row* rows, const Piece* pieces, double most) {
  const C bound = up(down<T>((C)most));
  each<1, 1>(rows, pieces, [=](C (&e)[1]) { e[0] = e[0] > bound ? bound : e[0] < -bound ? -bound : e[0]; });
}

// Multiply by most / (*norm + 1e-6) unless that is 1 or more.
extern "C" __global__ void __launch_bounds__(BLOCK) clip(const Row* rows, const Piece* pieces, double most, const double* norm) {
  const double ratio = most / (*norm + 1e-6);
  if (ratio >= 1) return;
  const C scale = up(down<T>((C)ratio));
  each<1, 1>(rows, pieces, [=](C (&e)[1]) { e[0] *= scale; });
}

// Divide by *scale, and set *found to 1 if an element is infinite or nan.
extern "C" __global__ void __launch_bounds__(BLOCK) unscale(const Row* rows, const Piece* pieces, const float* scale, float* found) {
  const C factor = (C)(1 / *scale);
  bool bad = false;
  each<1, 1>(rows, pieces, [&](C (&e)[1]) {
    bad = bad || !isfinite(e[0]);
    e[0] *= factor;
  });
  if (bad) *found = 1;  // all threads that write write the same
}

// The scale after a step: smaller if the step was skipped, larger after `interval` steps in a row that were not.
extern "C" __global__ void __launch_bounds__(32)
adapt(float* scale, int32_t* taken, const float* found, double growth, double backoff, int32_t interval) {
  if (threadIdx.x) return;
  if (*found != 0) {
    *scale = (float)(*scale * backoff);
    *taken = 0;
  } else if (++*taken == interval) {
    const float grown = (float)(*scale * growth);
    if (isfinite(grown)) *scale = grown;
    *taken = 0;
  }
}
