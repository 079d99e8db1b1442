// Elements read and written at indices.
// T: the element; kernels that only move elements take an unsigned integer of their size, or complex128_t for 16 bytes at once. J: an index,
// int32_t or int64_t. I: an offset, uint32_t or int64_t. R: how elements for one place are combined, one of the structs below.

struct Sum { template <typename C> static INLINE C of(C a, C b) { return a + b; } };
struct Product { template <typename C> static INLINE C of(C a, C b) { return a * b; } };
struct Largest { template <typename C> static INLINE C of(C a, C b) { return largest(a, b); } };
struct Smallest { template <typename C> static INLINE C of(C a, C b) { return smallest(a, b); } };

// The first fault since the host last looked: its number (0: none), the position where it is and, of an index that is out of range, its value
// and the size of the dimension.
struct Fault {
  int32_t number, unused;
  int64_t position, index, size;

  INLINE void note(int32_t what, int64_t where, int64_t value = 0, int64_t limit = 0) {
    if (atomicCAS(&number, 0, what)) return;
    position = where;
    index = value;
    size = limit;
  }
};

struct Bounds {
  Fault* fault;
  int64_t size, skip;
  int32_t op;
  bool wrap;  // whether negative indices count from the end

  // The place that an index selects; -1 for `skip`, and for one out of range, which is noted.
  INLINE int64_t place(int64_t index, int64_t position) const {
    const int64_t place = wrap && index < 0 ? index + size : index;
    if (place == skip) return -1;
    if (place >= 0 && place < size) return place;
    fault->note(op, position, index, size);
    return -1;
  }
};

constexpr int BLOCK = 256;
INLINE int64_t thread() { return (int64_t)blockIdx.x * BLOCK + threadIdx.x; }

// -- reading -----------------------------------------------------------------------------------------------------------------

// out[o, k, c] = x[o, index[k], c]; zeros where the index is `skip` or out of range.
extern "C" __global__ void __launch_bounds__(BLOCK)
take(const T* x, const J* index, T* out, int64_t size, int64_t count, int64_t length, Bounds bounds) {
  const int64_t i = thread();
  if (i >= size) return;
  const I row = (I)i / (I)length, column = (I)i - row * (I)length, o = row / (I)count, k = row - o * (I)count;
  const int64_t place = bounds.place(index[k], k);
  out[i] = place < 0 ? T{} : x[(o * bounds.size + place) * length + column];
}

// out[i, j, ...] = x[i, index[i, j, ...], ...], zeros as in `take`; `at` has the strides of x, 0 for its indexed dimension, and of the index.
extern "C" __global__ void __launch_bounds__(BLOCK) gather(const T* x, const J* index, T* out, int64_t stride, Layout<I, 2> at, Bounds bounds) {
  const int64_t i = thread();
  if (i >= at.size) return;
  I p[2];
  at.places((I)i, p);
  const int64_t place = bounds.place(index[p[1]], i);
  out[i] = place < 0 ? T{} : x[p[0] + place * stride];
}

// Note the first index out of range.
extern "C" __global__ void __launch_bounds__(BLOCK) look(const J* index, int64_t size, Bounds bounds) {
  const int64_t i = thread();
  if (i < size) bounds.place(index[i], i);
}

// Note a condition that does not hold; J is bool.
extern "C" __global__ void __launch_bounds__(BLOCK) require(const J* condition, int64_t size, Fault* fault, int32_t number) {
  const int64_t i = thread();
  if (i < size && !condition[i]) fault->note(number, i);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
masked_fill(const T* x, const bool* mask, const T* value, T number, T* out, bool whole, Layout<I, 2> at) {
  if (value) number = *value;
  if (whole) {  // x and the mask lie in the order of the result, 4 elements at addresses that allow to read them at once
    const int64_t i = thread() * 4;
    if (i + 4 <= at.size) {
      auto v = load<4>(x + i);
      const auto m = load<4>(mask + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) v.v[k] = m.v[k] ? number : v.v[k];
      store<4>(out + i, v);
    } else {
      for (int64_t k = i; k < at.size; ++k) out[k] = mask[k] ? number : x[k];
    }
    return;
  }
  const int64_t i = thread();
  if (i >= at.size) return;
  I p[2];
  at.places((I)i, p);
  out[i] = mask[p[1]] ? number : x[p[0]];
}

// -- writing -----------------------------------------------------------------------------------------------------------------

constexpr I NOWHERE = (I)-1;  // the key of an element that is not written

// keys[i]: where element i goes, an offset into the result; NOWHERE if its index is `skip` or out of range. `at` has the strides of the
// index and of the result, 0 for its indexed dimension.
extern "C" __global__ void __launch_bounds__(BLOCK) keys(const J* index, I* keys, int64_t stride, Layout<I, 2> at, Bounds bounds) {
  const int64_t i = thread();
  if (i >= at.size) return;
  I p[2];
  at.places((I)i, p);
  const int64_t place = bounds.place(index[p[0]], i);
  keys[i] = place < 0 ? NOWHERE : (I)(p[1] + place * stride);
}

// claims[key]: 1 + the largest number of an element that goes there. Zeros before.
extern "C" __global__ void __launch_bounds__(BLOCK) claim(const I* keys, I* claims, int64_t count) {
  const int64_t i = thread();
  if (i < count && keys[i] != NOWHERE) atomicMax(&claims[keys[i]], (I)(i + 1));
}

// out[keys[i]] = value[i * step], or `number` without values; of several elements for one place the last is written.
extern "C" __global__ void __launch_bounds__(BLOCK)
put(const T* value, int64_t step, T number, const I* keys, const I* claims, T* out, int64_t count) {
  const int64_t i = thread();
  if (i >= count || keys[i] == NOWHERE || claims && claims[keys[i]] != (I)(i + 1)) return;
  out[keys[i]] = value ? value[i * step] : number;
}

// -- combining ---------------------------------------------------------------------------------------------------------------
// out[o, key, c] = R(out[o, key, c], all value[o, k, c] with keys[k] == key), in the order of k, whatever the number of threads.
//
// `order` sorts the keys, so that the elements for one place are a run. The sorted list is cut into pieces, and a thread takes one piece
// (of V columns). A run inside of one piece is finished there. Of one that goes on in further pieces each gives a part, and `join` combines
// them: parts[o, piece, 0, c] is the end or middle of a run that began in an earlier piece, parts[o, piece, 1, c] the beginning of one.

constexpr int PIECE = 64;

struct Runs {
  const I* keys;
  const int64_t* order;
  int64_t count, size, length;  // elements (or rows) to combine, places (or rows) of the result, columns of a row
  bool mean;                    // whether a run's total is divided by its number of elements

  INLINE I key(int64_t i) const { return keys[order[i]]; }
  INLINE bool same(int64_t i, I k) const { return i >= 0 && i < count && key(i) == k; }
  INLINE int64_t pieces() const { return (count + PIECE - 1) / PIECE; }
  INLINE int64_t part(int64_t o, int64_t piece, int side, int64_t c) const { return ((o * pieces() + piece) * 2 + side) * length + c; }

  template <int V, typename C> INLINE void finish(T* out, int64_t o, I k, int64_t c, Vec<C, V> total, int64_t n) const {
    if (k == NOWHERE) return;
    out += (o * size + k) * length + c;
    auto y = load<V>(out);
#pragma unroll
    for (int v = 0; v < V; ++v) y.v[v] = down<T>(R::of((C)up(y.v[v]), mean ? (C)(total.v[v] / (C)n) : total.v[v]));
    store<V>(out, y);
  }

  template <int V, typename C> INLINE void add(Vec<C, V>& total, Vec<C, V> more) const {
#pragma unroll
    for (int v = 0; v < V; ++v) total.v[v] = R::of(total.v[v], more.v[v]);
  }

  template <int V> INLINE void walk(const T* value, T* out, computed<T>* parts, int64_t outer) const {
    typedef computed<T> C;
    const int64_t columns = length / V, i = thread();
    if (i >= outer * pieces() * columns) return;
    const int64_t row = i / columns, c = (i - row * columns) * V, o = row / pieces(), piece = row - o * pieces();
    const int64_t first = piece * PIECE, last = first + PIECE < count ? first + PIECE : count;
    I k = key(first);
    const bool goes_on = same(first - 1, k);
    int64_t begin = first;
    Vec<C, V> total;
    for (int64_t at = first; at < last; ++at) {
      const auto x = load<V>(value + (o * count + order[at]) * length + c);
      Vec<C, V> next;
#pragma unroll
      for (int v = 0; v < V; ++v) next.v[v] = up(x.v[v]);
      if (at == begin) total = next;
      else add(total, next);
      if (same(at + 1, k)) continue;
      if (begin == first && goes_on) store<V>(parts + part(o, piece, 0, c), total);
      else finish<V, C>(out, o, k, c, total, at + 1 - begin);
      begin = at + 1;
      if (begin < last) k = key(begin);
    }
    if (begin < last) store<V>(parts + part(o, piece, begin == first && goes_on ? 0 : 1, c), total);
  }

  template <int V> INLINE void join(const computed<T>* parts, T* out, int64_t outer) const {
    typedef computed<T> C;
    const int64_t columns = length / V, i = thread();
    if (i >= outer * pieces() * columns) return;
    const int64_t row = i / columns, c = (i - row * columns) * V, o = row / pieces(), piece = row - o * pieces();
    const int64_t first = piece * PIECE;
    int64_t end = first + PIECE;
    if (end >= count) return;
    const I k = key(end);
    if (!same(end - 1, k)) return;  // no run goes on
    int64_t begin = end - 1;
    while (begin > first && same(begin - 1, k)) --begin;
    if (begin == first && same(first - 1, k)) return;  // it began in an earlier piece
    auto total = load<V>(parts + part(o, piece, 1, c));
    for (int64_t later = piece + 1; same(end, k); ++later) {
      add(total, load<V>(parts + part(o, later, 0, c)));
      end = (later + 1) * PIECE < count ? (later + 1) * PIECE : count;
    }
    if (mean) while (!same(end - 1, k)) --end;
    finish<V, C>(out, o, k, c, total, end - begin);
  }
};

extern "C" __global__ void __launch_bounds__(BLOCK) combine(const T* value, T* out, computed<T>* parts, int64_t outer, bool whole, Runs runs) {
  if (whole) runs.walk<4>(value, out, parts, outer);
  else runs.walk<1>(value, out, parts, outer);
}

extern "C" __global__ void __launch_bounds__(BLOCK) join(const computed<T>* parts, T* out, int64_t outer, bool whole, Runs runs) {
  if (whole) runs.join<4>(parts, out, outer);
  else runs.join<1>(parts, out, outer);
}
