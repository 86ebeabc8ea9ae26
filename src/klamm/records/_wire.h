/* Numbers as batches carry them: big-endian, and zig-zag varints. Nothing here reads past `end`. */
#ifndef KLAMM_WIRE_H
#define KLAMM_WIRE_H

#include <stdint.h>
#include <string.h>

static inline uint32_t klamm_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int32_t klamm_i32(const uint8_t *at) { return (int32_t)klamm_u32(at); }

static inline int16_t klamm_i16(const uint8_t *at) { return (int16_t)((uint16_t)at[0] << 8 | at[1]); }

static inline int64_t klamm_i64(const uint8_t *at) {
    return (int64_t)((uint64_t)klamm_u32(at) << 32 | klamm_u32(at + 4));
}

/* Java's arithmetic, where what overflows wraps around. */
static inline int64_t klamm_wrapping_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t klamm_wrapping_difference(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* A varint at `at`: the position after it, or NULL when it is too long or `end` comes first. */
static inline const uint8_t *klamm_varint(const uint8_t *at, const uint8_t *end, int32_t *value) {
    if (at < end && *at < 0x80) { /* nearly all of them are one byte */
        *value = (int32_t)(*at >> 1) ^ -(int32_t)(*at & 1);
        return at + 1;
    }
    uint32_t raw = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (at >= end) return NULL;
        uint8_t byte = *at++;
        raw |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (int32_t)((raw >> 1) ^ (0u - (raw & 1)));
            return at;
        }
    }
    return NULL;
}

static inline const uint8_t *klamm_varlong(const uint8_t *at, const uint8_t *end, int64_t *value) {
    uint64_t raw = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at >= end) return NULL;
        uint8_t byte = *at++;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = (int64_t)((raw >> 1) ^ (0u - (raw & 1)));
            return at;
        }
    }
    return NULL;
}

static inline uint64_t klamm_zigzag(int64_t value) {
    return ((uint64_t)value << 1) ^ (value < 0 ? ~(uint64_t)0 : 0);
}

static inline int klamm_varint_size(int64_t value) {
    uint64_t raw = klamm_zigzag(value);
    int size = 1;
    while (raw > 0x7f) {
        raw >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *klamm_put_varint(uint8_t *out, int64_t value) {
    uint64_t raw = klamm_zigzag(value);
    while (raw > 0x7f) {
        *out++ = (uint8_t)(raw & 0x7f) | 0x80;
        raw >>= 7;
    }
    *out++ = (uint8_t)raw;
    return out;
}

/* One record in its region; pointers into it, nothing copied. */
typedef struct {
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_size; /* negative: null */
    int32_t value_size;
    int32_t header_count;
    const uint8_t *key;
    const uint8_t *value;
    const uint8_t *headers;
    const uint8_t *end;
} klamm_record;

static inline const uint8_t *klamm_field(const uint8_t *at, const uint8_t *end, const uint8_t **field,
                                         int32_t *size) {
    at = klamm_varint(at, end, size);
    if (at == NULL) return NULL;
    *field = at;
    if (*size <= 0) return at;
    return *size <= end - at ? at + *size : NULL;
}

/* The record at `at`, and the position after it; NULL when it is malformed. */
static inline const uint8_t *klamm_parse_record(const uint8_t *at, const uint8_t *end, klamm_record *record) {
    int32_t length;
    at = klamm_varint(at, end, &length);
    if (at == NULL || length < 1 || length > end - at) return NULL;
    end = at + length;
    at++; /* attributes: no bit of them is in use */
    if ((at = klamm_varlong(at, end, &record->timestamp_delta)) == NULL) return NULL;
    if ((at = klamm_varint(at, end, &record->offset_delta)) == NULL || record->offset_delta < 0) return NULL;
    if ((at = klamm_field(at, end, &record->key, &record->key_size)) == NULL) return NULL;
    if ((at = klamm_field(at, end, &record->value, &record->value_size)) == NULL) return NULL;
    if ((at = klamm_varint(at, end, &record->header_count)) == NULL) return NULL;
    record->headers = at;
    record->end = end;
    if (record->header_count == 0) return at == end ? end : NULL;
    /* Checked here, so that a record is accepted as a whole or not at all. */
    if (record->header_count < 0 || record->header_count > (end - at) / 2) return NULL;
    for (int32_t i = 0; i < record->header_count; i++) {
        const uint8_t *field;
        int32_t size;
        if ((at = klamm_field(at, end, &field, &size)) == NULL || size < 0) return NULL;
        if ((at = klamm_field(at, end, &field, &size)) == NULL) return NULL;
    }
    return at == end ? end : NULL;
}

/* Murmur2 with Kafka's seed, as its clients hash keys. */
static inline uint32_t klamm_murmur2(const uint8_t *data, size_t size) {
    const uint32_t m = 0x5bd1e995u;
    uint32_t h = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; data += 4, size -= 4) {
        uint32_t k = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
                     (uint32_t)data[3] << 24;
        k *= m;
        k ^= k >> 24;
        h = (h * m) ^ (k * m);
    }
    if (size) {
        for (size_t i = 0; i < size; i++) h ^= (uint32_t)data[i] << (8 * i);
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ (h >> 15);
}

#endif
