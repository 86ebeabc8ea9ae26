/* Offset commits as coordinators log them. Nothing here reads past the key and the value. */
#ifndef KLAMM_OFFSETS_H
#define KLAMM_OFFSETS_H

#include "_wire.h"

typedef struct {
    int16_t key_version;
    int16_t value_version; /* -1: a tombstone */
    int32_t partition;
    int32_t leader_epoch;
    int32_t group_size;
    int32_t topic_size;
    int32_t metadata_size; /* negative: null */
    int64_t committed_offset;
    int64_t commit_timestamp_ms;
    int64_t expire_timestamp_ms;
    const uint8_t *group;
    const uint8_t *topic;
    const uint8_t *metadata;
} klamm_offset_commit;

enum { KLAMM_OTHER_RECORD = 0, KLAMM_OFFSET_COMMIT = 1, KLAMM_BROKEN_COMMIT = 2 };

/* A string with a 16-bit length, and the position after it; NULL when it is not all there. */
static inline const uint8_t *klamm_string(const uint8_t *at, const uint8_t *end, const uint8_t **text,
                                          int32_t *size) {
    if (end - at < 2) return NULL;
    *size = klamm_i16(at);
    *text = at + 2;
    if (*size < 0) return at + 2;
    return *size <= end - at - 2 ? at + 2 + *size : NULL;
}

/* The same with its length plus one as an unsigned varint; zero is null. */
static inline const uint8_t *klamm_compact_string(const uint8_t *at, const uint8_t *end, const uint8_t **text,
                                                  int32_t *size) {
    uint32_t raw = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (at >= end) return NULL;
        uint8_t byte = *at++;
        raw |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *text = at;
            if (raw > 0 && raw - 1 > (size_t)(end - at)) return NULL;
            *size = (int32_t)raw - 1;
            return raw > 0 ? at + (raw - 1) : at;
        }
    }
    return NULL;
}

static inline int klamm_parse_commit_value(const uint8_t *at, const uint8_t *end, klamm_offset_commit *commit) {
    commit->leader_epoch = -1;
    commit->expire_timestamp_ms = -1;
    if (end - at < 10) return KLAMM_BROKEN_COMMIT;
    commit->value_version = klamm_i16(at);
    commit->committed_offset = klamm_i64(at + 2);
    at += 10;
    if (commit->value_version < 0 || commit->value_version > 4) return KLAMM_BROKEN_COMMIT;
    if (commit->value_version >= 3) {
        if (end - at < 4) return KLAMM_BROKEN_COMMIT;
        commit->leader_epoch = klamm_i32(at);
        at += 4;
    }
    at = commit->value_version == 4 ? klamm_compact_string(at, end, &commit->metadata, &commit->metadata_size)
                                    : klamm_string(at, end, &commit->metadata, &commit->metadata_size);
    if (at == NULL || end - at < 8) return KLAMM_BROKEN_COMMIT;
    commit->commit_timestamp_ms = klamm_i64(at);
    if (commit->value_version == 1) {
        if (end - at < 16) return KLAMM_BROKEN_COMMIT;
        commit->expire_timestamp_ms = klamm_i64(at + 8);
    }
    return KLAMM_OFFSET_COMMIT;
}

/* The offset commit in a record of the coordinator's log, if it is one. */
static inline int klamm_parse_commit(const klamm_record *record, klamm_offset_commit *commit) {
    const uint8_t *at = record->key;
    if (record->key_size < 2) return KLAMM_OTHER_RECORD;
    const uint8_t *end = at + record->key_size;
    commit->key_version = klamm_i16(at);
    if (commit->key_version != 0 && commit->key_version != 1) return KLAMM_OTHER_RECORD;
    at = klamm_string(at + 2, end, &commit->group, &commit->group_size);
    if (at == NULL || commit->group_size < 0) return KLAMM_BROKEN_COMMIT;
    at = klamm_string(at, end, &commit->topic, &commit->topic_size);
    if (at == NULL || commit->topic_size < 0 || end - at < 4) return KLAMM_BROKEN_COMMIT;
    commit->partition = klamm_i32(at);
    if (record->value_size < 0) {
        commit->value_version = -1;
        return KLAMM_OFFSET_COMMIT;
    }
    return klamm_parse_commit_value(record->value, record->value + record->value_size, commit);
}

#endif
