// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).

struct Words { uint32_t w[4]; };

// A seed and a counter. In a CUDA graph, whose arguments are the same in every replay, `state` holds the seed and what is added to the
// counter; elsewhere it is null.
struct Source { uint64_t seed, offset; const uint64_t* state; };

INLINE Words philox(uint64_t key, uint64_t low, uint64_t high) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  Words c = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = (uint64_t)0xD2511F53u * c.w[0], b = (uint64_t)0xCD9E8D57u * c.w[2];
    c = {(uint32_t)(b >> 32) ^ c.w[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c.w[3] ^ k1, (uint32_t)a};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}
