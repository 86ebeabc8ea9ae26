/* CRC-32C (Castagnoli): the processor's own instruction where it has one, tables elsewhere. */
#ifndef KLAMM_CRC32C_H
#define KLAMM_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KLAMM_CRC_POLYNOMIAL 0x82f63b78u /* bits reversed */

#if (defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__)))
#define KLAMM_CRC_SSE42 1
#include <nmmintrin.h>
#endif

/* table[0] advances a checksum by one byte, table[k] by one byte and k zero bytes. */
static uint32_t klamm_crc_table[8][256];

static void klamm_crc_fill_table(void) {
    for (uint32_t index = 0; index < 256; index++) {
        uint32_t crc = index;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) ? KLAMM_CRC_POLYNOMIAL : 0);
        klamm_crc_table[0][index] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t index = 0; index < 256; index++) {
            uint32_t crc = klamm_crc_table[k - 1][index];
            klamm_crc_table[k][index] = (crc >> 8) ^ klamm_crc_table[0][crc & 0xff];
        }
}

/* Eight bytes a step. Both work on the inverted checksum. */
static uint32_t klamm_crc_by_table(uint32_t crc, const uint8_t *data, size_t size) {
    while (size >= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                              (uint32_t)data[3] << 24);
        crc = klamm_crc_table[7][low & 0xff] ^ klamm_crc_table[6][(low >> 8) & 0xff] ^
              klamm_crc_table[5][(low >> 16) & 0xff] ^ klamm_crc_table[4][low >> 24] ^
              klamm_crc_table[3][data[4]] ^ klamm_crc_table[2][data[5]] ^
              klamm_crc_table[1][data[6]] ^ klamm_crc_table[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--) crc = (crc >> 8) ^ klamm_crc_table[0][(crc ^ *data++) & 0xff];
    return crc;
}

#ifdef KLAMM_CRC_SSE42
/* The instruction takes three cycles and can start every cycle, so three stripes run side by side. Their
   checksums are joined by moving the earlier ones over the bytes of the later: a checksum moved over zero
   bytes is a linear map of its 32 bits, kept as one table per byte of it. */
#define KLAMM_CRC_STRIPE 1024
static uint32_t klamm_crc_move[4][256];

static void klamm_crc_fill_move(void) {
    uint32_t moved[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = (uint32_t)1 << bit;
        for (int i = 0; i < KLAMM_CRC_STRIPE; i++) crc = (crc >> 8) ^ klamm_crc_table[0][crc & 0xff];
        moved[bit] = crc;
    }
    for (int part = 0; part < 4; part++)
        for (int index = 0; index < 256; index++) {
            uint32_t sum = 0;
            for (int bit = 0; bit < 8; bit++)
                if (index >> bit & 1) sum ^= moved[part * 8 + bit];
            klamm_crc_move[part][index] = sum;
        }
}

static inline uint32_t klamm_crc_moved(uint32_t crc) {
    return klamm_crc_move[0][crc & 0xff] ^ klamm_crc_move[1][(crc >> 8) & 0xff] ^
           klamm_crc_move[2][(crc >> 16) & 0xff] ^ klamm_crc_move[3][crc >> 24];
}

static inline uint64_t klamm_crc_load(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t klamm_crc_by_sse42(uint32_t crc, const uint8_t *data,
                                                                    size_t size) {
    while (size >= 3 * KLAMM_CRC_STRIPE) {
        uint64_t first = crc, second = 0, third = 0;
        for (const uint8_t *end = data + KLAMM_CRC_STRIPE; data < end; data += 8) {
            first = _mm_crc32_u64(first, klamm_crc_load(data));
            second = _mm_crc32_u64(second, klamm_crc_load(data + KLAMM_CRC_STRIPE));
            third = _mm_crc32_u64(third, klamm_crc_load(data + 2 * KLAMM_CRC_STRIPE));
        }
        crc = klamm_crc_moved((uint32_t)first) ^ (uint32_t)second;
        crc = klamm_crc_moved(crc) ^ (uint32_t)third;
        data += 2 * KLAMM_CRC_STRIPE;
        size -= 3 * KLAMM_CRC_STRIPE;
    }
    uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, klamm_crc_load(data));
    crc = (uint32_t)wide;
    while (size--) crc = _mm_crc32_u8(crc, *data++);
    return crc;
}
#endif

static uint32_t (*klamm_crc_update)(uint32_t, const uint8_t *, size_t) = klamm_crc_by_table;

/* Called once, when the module is imported. True when the processor has the instruction. */
static int klamm_crc_init(void) {
    klamm_crc_fill_table();
#ifdef KLAMM_CRC_SSE42
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        klamm_crc_fill_move();
        klamm_crc_update = klamm_crc_by_sse42;
        return 1;
    }
#endif
    return 0;
}

static inline uint32_t klamm_crc32c(uint32_t value, const uint8_t *data, size_t size) {
    return ~klamm_crc_update(~value, data, size);
}

static inline uint32_t klamm_crc32c_portable(uint32_t value, const uint8_t *data, size_t size) {
    return ~klamm_crc_by_table(~value, data, size);
}

#endif
