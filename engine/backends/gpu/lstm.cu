// One time step of an LSTM, forward and backward, beside the products with its weight. T: float or double.
//
// A row has the gates i, f, g, o of `n` units one after the other. A thread computes one unit of one row.

INLINE T sigmoid(T x) { return 1 / (1 + exp(-x)); }

// `z` is the weight's product with the last hidden state; the results are the gates, the cell state and the hidden state.
extern "C" __global__ void lstm_step(const T* z, const T* given, const T* c, T* gates, T* cell, T* h, int64_t n, int64_t count) {
  const int64_t unit = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (unit >= count) return;
  const int64_t at = unit / n * 4 * n + unit % n;
  const T i = sigmoid(z[at] + given[at]), f = sigmoid(z[at + n] + given[at + n]);
  const T g = tanh(z[at + 2 * n] + given[at + 2 * n]), o = sigmoid(z[at + 3 * n] + given[at + 3 * n]);
  const T state = f * c[unit] + i * g;
  gates[at] = i;
  gates[at + n] = f;
  gates[at + 2 * n] = g;
  gates[at + 3 * n] = o;
  cell[unit] = state;
  h[unit] = o * tanh(state);
}

// `dh` comes from the step after, `g` from outside; `old` is the cell state before the step. `dc` is read and written.
extern "C" __global__ void lstm_step_back(const T* g, const T* dh, T* dc, const T* gates, const T* cell, const T* old, T* dz, int64_t n,
                                          int64_t count) {
  const int64_t unit = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (unit >= count) return;
  const int64_t at = unit / n * 4 * n + unit % n;
  const T i = gates[at], f = gates[at + n], fresh = gates[at + 2 * n], o = gates[at + 3 * n], t = tanh(cell[unit]);
  const T to_h = g[unit] + (dh ? dh[unit] : 0), to_c = dc[unit] + to_h * o * (1 - t * t);
  dz[at] = to_c * fresh * i * (1 - i);
  dz[at + n] = to_c * old[unit] * f * (1 - f);
  dz[at + 2 * n] = to_c * i * (1 - fresh * fresh);
  dz[at + 3 * n] = to_h * t * o * (1 - o);
  dc[unit] = to_c * f;
}
