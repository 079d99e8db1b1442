// Scaled dot-product attention in one pass over keys and values, without the matrix of weights in memory, and its gradients.
// T: the type of the elements; all arithmetic is in float. HEAD: the head dimension, rounded up. MASK: of what the mask is, NONE, BOOLEAN,
// SAME (of T) or SINGLE (of float). DROPOUT: whether there is one.
//
// Forward, a block has ROWS queries and goes through the keys, COLS at a time: the maximum and the sum of the softmax are corrected as
// larger scores come (Milakov and Gimelshein 2018; Dao et al., "FlashAttention", 2022). Backward, weights are computed again from the
// logarithm of the sum; queries sum over keys in one kernel, keys over queries in another, so no two blocks add to the same element.

#include "philox.cuh"

enum { NONE, BOOLEAN, SAME, SINGLE };
constexpr int ROWS = HEAD > 128 ? 32 : 64, COLS = 64, DEPTH = 32;  // DEPTH: of a head at a time
constexpr int MINE = ROWS / 16, WIDTH = COLS + 4;                                        // WIDTH: keeps vectors aligned and banks apart
typedef float Tile[MINE][4];           // a thread's part of ROWS x COLS: rows ty * MINE ..., columns tx * 4 ...
typedef float Sums[MINE][HEAD / 32][2];  // and of ROWS x HEAD: columns tx * 2 + 32 * n ...

// Heads of one array: the first element, and the distances of batches, heads and rows. The elements of a row are contiguous.
struct Heads { T* data; int64_t batch, head, row; };
struct Mask { const void* data; int64_t batch, head, row, col; };

struct Problem {
  Heads query, key, value, out, grad, d_query, d_key, d_value;
  Mask mask;
  float *log_sum, *dot, *d_mask;  // of each row: the logarithm of the sum of its exponentials, its product with the gradient
  const uint64_t* draws;          // seed and counter of the dropout
  int64_t rows, cols;
  int32_t batches, heads, group, depth, width, causal;  // group: queries' heads of one key's; depth, width: of queries and of values
  float scale;
  int32_t unused;
  double dropout;
};

struct alignas(16) Shared {
  float left[DEPTH * WIDTH], right[DEPTH * WIDTH];  // of both factors of a product, by depth
  float weights[ROWS * WIDTH];
};

// Where a block works: a tile of rows, in one head of one batch.
struct Block {
  int tx, ty;
  int64_t head, batch, first;
  INLINE Block(int64_t size, int heads) {
    const int64_t tiles = (size + ROWS - 1) / ROWS;
    tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    first = blockIdx.x % tiles * ROWS, head = blockIdx.x / tiles % heads, batch = blockIdx.x / tiles / heads;
  }
  INLINE int64_t row(int i) const { return first + ty * MINE + i; }
};

INLINE T* at(const Heads& h, int64_t batch, int64_t head) { return h.data + batch * h.batch + head * h.head; }

// SIZE rows of DEPTH elements, from `start` on, are stored by depth: into[element][row].
template <int SIZE> INLINE void read(float* into, const T* from, int64_t step, int64_t first, int64_t rows, int start, int depth) {
  const int e = threadIdx.x % DEPTH;
  for (int r = threadIdx.x / DEPTH; r < SIZE; r += 256 / DEPTH)
    into[e * WIDTH + r] = first + r < rows && start + e < depth ? up(from[(first + r) * step + start + e]) : 0;
}

// tile += left right^T, of ROWS and COLS rows with `depth` elements.
INLINE void product(
    Tile& tile, Shared& shared, const Block& b, const T* left, int64_t left_step, int64_t rows, const T* right, int64_t right_step,
    int64_t first, int64_t cols, int depth) {
  for (int start = 0; start < depth; start += DEPTH) {
    __syncthreads();
    read<ROWS>(shared.left, left, left_step, b.first, rows, start, depth);
    read<COLS>(shared.right, right, right_step, first, cols, start, depth);
    __syncthreads();
#pragma unroll 8
    for (int e = 0; e < DEPTH; ++e) {
      const auto x = load<MINE>(shared.left + e * WIDTH + b.ty * MINE);
      const auto y = load<4>(shared.right + e * WIDTH + b.tx * 4);
#pragma unroll
      for (int i = 0; i < MINE; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) tile[i][j] += x.v[i] * y.v[j];
    }
  }
}

// sums += weights right, of the ROWS x COLS weights of all threads and COLS rows with `width` elements.
INLINE void gather(
    Sums& sums, const Tile& weights, Shared& shared, const Block& b, const T* right, int64_t step, int64_t first, int64_t cols, int width) {
  __syncthreads();
#pragma unroll
  for (int i = 0; i < MINE; ++i) {
    Vec<float, 4> row;
    for (int j = 0; j < 4; ++j) row.v[j] = weights[i][j];
    store<4>(shared.weights + (b.ty * MINE + i) * WIDTH + b.tx * 4, row);
  }
#pragma unroll
  for (int n = 0; n < HEAD / 32; ++n) {
    if (n * 32 >= width) break;
    float* const part = shared.left;  // [row][32]
    const int e = threadIdx.x % 32;
    __syncthreads();
    for (int r = threadIdx.x / 32; r < COLS; r += 8)
      part[r * 32 + e] = first + r < cols && n * 32 + e < width ? up(right[(first + r) * step + n * 32 + e]) : 0;
    __syncthreads();
#pragma unroll 2
    for (int c = 0; c < COLS; c += 4) {
      Vec<float, 2> y[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) y[k] = load<2>(part + (c + k) * 32 + b.tx * 2);
#pragma unroll
      for (int i = 0; i < MINE; ++i) {
        const auto x = load<4>(shared.weights + (b.ty * MINE + i) * WIDTH + c);
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[i][n][0] += x.v[k] * y[k].v[0], sums[i][n][1] += x.v[k] * y[k].v[1];
      }
    }
  }
}

INLINE void put(T* out, int64_t step, const Block& b, int64_t rows, int width, const Sums& sums, const float (&factor)[MINE]) {
#pragma unroll
  for (int i = 0; i < MINE; ++i)
#pragma unroll
    for (int n = 0; n < HEAD / 32; ++n)
      for (int k = 0; k < 2; ++k) {
        const int e = n * 32 + b.tx * 2 + k;
        if (b.row(i) < rows && e < width) out[b.row(i) * step + e] = down<T>(sums[i][n][k] * factor[i]);
      }
}

// The score of a query and a key, from their product; -inf where the one does not see the other.
INLINE float score(const Problem& p, float product, int64_t batch, int64_t head, int64_t row, int64_t col) {
  if (col >= p.cols || row >= p.rows || (p.causal && col > row)) return -INFINITY;
  const float s = product * p.scale;
  if constexpr (MASK == NONE) return s;
  const Mask& m = p.mask;
  const int64_t place = batch * m.batch + head * m.head + row * m.row + col * m.col;
  if constexpr (MASK == BOOLEAN) return ((const bool*)m.data)[place] ? s : -INFINITY;
  if constexpr (MASK == SAME) return s + up(((const T*)m.data)[place]);
  return s + ((const float*)m.data)[place];
}

// Dropout: 1 / (1 - dropout) or 0 for each weight, which is the same in every kernel, and in `bernoulli` for all weights at once.
struct Dropped {
  double chance;
  float factor;
  uint64_t seed, offset, held;
  Words words;
  INLINE Dropped(const Problem& p) {
    if constexpr (!DROPOUT) return;
    chance = 1 - p.dropout, factor = (float)(1 / chance), seed = p.draws[0], offset = p.draws[1], held = ~0ull;
  }
  INLINE float at(const Problem& p, int64_t batch, int64_t head, int64_t row, int64_t col) {
    if constexpr (!DROPOUT) return 1;
    const uint64_t place = ((batch * p.heads + head) * p.rows + row) * p.cols + col;
    if (place / 4 != held) words = philox(seed, offset + (held = place / 4), 0);
    return words.w[place % 4] < chance * 4294967296.0 ? factor : 0;
  }
};

// Over the 16 threads with the same rows.
template <class F> INLINE float across(float x, F merge) {
  for (int d = 8; d > 0; d /= 2) x = merge(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}

extern "C" __global__ void __launch_bounds__(256) attention(Problem p) {
  __shared__ Shared shared;
  const Block b(p.rows, p.heads);
  const T *query = at(p.query, b.batch, b.head), *key = at(p.key, b.batch, b.head / p.group), *value = at(p.value, b.batch, b.head / p.group);
  Dropped dropped(p);
  Sums sums = {};
  float top[MINE], sum[MINE];
  for (int i = 0; i < MINE; ++i) top[i] = -INFINITY, sum[i] = 0;
  const int64_t end = p.causal && b.first + ROWS < p.cols ? b.first + ROWS : p.cols;
  for (int64_t first = 0; first < end; first += COLS) {
    Tile tile = {};
    product(tile, shared, b, query, p.query.row, p.rows, key, p.key.row, first, p.cols, p.depth);
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
      float now = top[i], added = 0;
      for (int j = 0; j < 4; ++j) {
        tile[i][j] = score(p, tile[i][j], b.batch, b.head, b.row(i), first + b.tx * 4 + j);
        now = largest(now, tile[i][j]);
      }
      now = across(now, [](float x, float y) { return largest(x, y); });
      const float base = now == -INFINITY ? 0 : now, fade = exp(top[i] - base);
      for (int j = 0; j < 4; ++j) {
        const float e = exp(tile[i][j] - base);
        added += e;
        tile[i][j] = e * dropped.at(p, b.batch, b.head, b.row(i), first + b.tx * 4 + j);
      }
      sum[i] = sum[i] * fade + across(added, [](float x, float y) { return x + y; });
      top[i] = now;
      for (int n = 0; n < HEAD / 32; ++n) sums[i][n][0] *= fade, sums[i][n][1] *= fade;
    }
    gather(sums, tile, shared, b, value, p.value.row, first, p.cols, p.width);
  }
  float factor[MINE];
  for (int i = 0; i < MINE; ++i) {
    factor[i] = sum[i] == 0 ? 0 : 1 / sum[i];  // a row that sees nothing is 0, and its weights stay 0: exp(-inf - inf)
    if (b.tx == 0 && b.row(i) < p.rows)
      p.log_sum[(b.batch * p.heads + b.head) * p.rows + b.row(i)] = sum[i] == 0 ? INFINITY : top[i] + log(sum[i]);
  }
  put(at(p.out, b.batch, b.head), p.out.row, b, p.rows, p.width, sums, factor);
}

// The product of each row of the result with its gradient.
extern "C" __global__ void __launch_bounds__(256) attention_dot(Problem p) {
  const int64_t row = (int64_t)blockIdx.x * 8 + threadIdx.x / 32, all = (int64_t)p.batches * p.heads * p.rows;
  const int64_t r = row % p.rows, head = row / p.rows % p.heads, batch = row / p.rows / p.heads;
  float sum = 0;
  if (row < all)
    for (int e = threadIdx.x % 32; e < p.width; e += 32)
      sum += up(at(p.out, batch, head)[r * p.out.row + e]) * up(at(p.grad, batch, head)[r * p.grad.row + e]);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (row < all && threadIdx.x % 32 == 0) p.dot[row] = sum;
}

extern "C" __global__ void __launch_bounds__(256) attention_query(Problem p) {
  __shared__ Shared shared;
  const Block b(p.rows, p.heads);
  const T *query = at(p.query, b.batch, b.head), *grad = at(p.grad, b.batch, b.head);
  const T *key = at(p.key, b.batch, b.head / p.group), *value = at(p.value, b.batch, b.head / p.group);
  Dropped dropped(p);
  Sums sums = {};
  float log_sum[MINE], dot[MINE], factor[MINE];
  const int64_t beside = (b.batch * p.heads + b.head) * p.rows;
  for (int i = 0; i < MINE; ++i) {
    const bool any = b.row(i) < p.rows;
    log_sum[i] = any ? p.log_sum[beside + b.row(i)] : INFINITY, dot[i] = any ? p.dot[beside + b.row(i)] : 0, factor[i] = p.scale;
  }
  // where a mask wants a gradient, its hidden part gets zeros
  const int64_t end = p.causal && !p.d_mask && b.first + ROWS < p.cols ? b.first + ROWS : p.cols;
  for (int64_t first = 0; first < end; first += COLS) {
    Tile tile = {}, slope = {};
    product(tile, shared, b, query, p.query.row, p.rows, key, p.key.row, first, p.cols, p.depth);
    product(slope, shared, b, grad, p.grad.row, p.rows, value, p.value.row, first, p.cols, p.width);
#pragma unroll
    for (int i = 0; i < MINE; ++i)
      for (int j = 0; j < 4; ++j) {
        const int64_t col = first + b.tx * 4 + j;
        const float s = score(p, tile[i][j], b.batch, b.head, b.row(i), col), kept = dropped.at(p, b.batch, b.head, b.row(i), col);
        tile[i][j] = s == -INFINITY ? 0 : exp(s - log_sum[i]) * (slope[i][j] * kept - dot[i]);
        if (p.d_mask && b.row(i) < p.rows && col < p.cols) p.d_mask[(beside + b.row(i)) * p.cols + col] = tile[i][j];
      }
    gather(sums, tile, shared, b, key, p.key.row, first, p.cols, p.depth);
  }
  put(at(p.d_query, b.batch, b.head), p.d_query.row, b, p.rows, p.depth, sums, factor);
}

// The rows of a tile are keys here, its columns queries.
extern "C" __global__ void __launch_bounds__(256) attention_key_value(Problem p) {
  __shared__ Shared shared;
  const Block b(p.cols, p.heads / p.group);
  const T *key = at(p.key, b.batch, b.head), *value = at(p.value, b.batch, b.head);
  Dropped dropped(p);
  Sums d_key = {}, d_value = {};
  for (int64_t head = b.head * p.group; head < (b.head + 1) * p.group; ++head) {
    const T *query = at(p.query, b.batch, head), *grad = at(p.grad, b.batch, head);
    const int64_t beside = (b.batch * p.heads + head) * p.rows;
    for (int64_t first = p.causal ? b.first / COLS * COLS : 0; first < p.rows; first += COLS) {
      Tile tile = {}, slope = {};
      product(tile, shared, b, key, p.key.row, p.cols, query, p.query.row, first, p.rows, p.depth);
      product(slope, shared, b, value, p.value.row, p.cols, grad, p.grad.row, first, p.rows, p.width);
#pragma unroll
      for (int i = 0; i < MINE; ++i)
        for (int j = 0; j < 4; ++j) {
          const int64_t row = first + b.tx * 4 + j;
          const float s = score(p, tile[i][j], b.batch, head, row, b.row(i));
          const float kept = dropped.at(p, b.batch, head, row, b.row(i));
          const float weight = s == -INFINITY ? 0 : exp(s - p.log_sum[beside + row]);
          tile[i][j] = weight * kept;
          slope[i][j] = s == -INFINITY ? 0 : weight * (slope[i][j] * kept - p.dot[beside + row]);
        }
      gather(d_value, tile, shared, b, grad, p.grad.row, first, p.rows, p.width);
      gather(d_key, slope, shared, b, query, p.query.row, first, p.rows, p.depth);
    }
  }
  float one[MINE], scale[MINE];
  for (int i = 0; i < MINE; ++i) one[i] = 1, scale[i] = p.scale;
  put(at(p.d_value, b.batch, b.head), p.d_value.row, b, p.cols, p.width, d_value, one);
  put(at(p.d_key, b.batch, b.head), p.d_key.row, b, p.cols, p.depth, d_key, scale);
}
