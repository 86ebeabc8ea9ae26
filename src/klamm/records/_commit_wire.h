/* Partitions of an OffsetCommit request. Nothing here reads past `end`. */
#ifndef KLAMM_COMMIT_WIRE_H
#define KLAMM_COMMIT_WIRE_H

#include "_offset_table.h"

enum { KLAMM_MAX_STRING_BYTES = 0x7fff };

/* An unsigned varint of five bytes at most, and the position after it; NULL when it is not all there. */
static inline const uint8_t *klamm_uvarint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (at >= end) return NULL;
        uint8_t byte = *at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return at;
    }
    return NULL;
}

/* The position after a tag section; NULL when it is not all there. */
static inline const uint8_t *klamm_skip_tags(const uint8_t *at, const uint8_t *end) {
    uint64_t count, tag, size;
    if ((at = klamm_uvarint(at, end, &count)) == NULL || count > (uint64_t)(end - at) / 2) return NULL;
    for (; count; count--) {
        if ((at = klamm_uvarint(at, end, &tag)) == NULL) return NULL;
        if ((at = klamm_uvarint(at, end, &size)) == NULL || size > (uint64_t)(end - at)) return NULL;
        at += size;
    }
    return at;
}

/* The partition at `at`, and the position after it; NULL when it is malformed. */
static inline const uint8_t *klamm_read_commit(const uint8_t *at, const uint8_t *end, int has_leader_epoch,
                                               int is_flexible, klamm_commit *commit,
                                               const uint8_t **metadata, int32_t *metadata_size) {
    uint64_t size;
    if (end - at < 12 + (has_leader_epoch ? 4 : 0)) return NULL;
    commit->partition = klamm_i32(at);
    commit->offset = klamm_i64(at + 4);
    commit->leader_epoch = has_leader_epoch ? klamm_i32(at + 12) : -1;
    at += has_leader_epoch ? 16 : 12;
    if (is_flexible) {
        if ((at = klamm_uvarint(at, end, &size)) == NULL || size > KLAMM_MAX_STRING_BYTES + 1) return NULL;
        *metadata_size = (int32_t)size - 1;
    } else {
        if (end - at < 2 || (*metadata_size = klamm_i16(at)) < -1) return NULL;
        at += 2;
    }
    *metadata = at;
    if (*metadata_size > 0) {
        if (*metadata_size > end - at) return NULL;
        at += *metadata_size;
    }
    return is_flexible ? klamm_skip_tags(at, end) : at;
}

#endif
