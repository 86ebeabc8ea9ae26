/* Committed offsets by partition: entries side by side, and many of them found through a small index. */
#ifndef KLAMM_OFFSET_TABLE_H
#define KLAMM_OFFSET_TABLE_H

#include <Python.h>
#include "_wire.h"

/* One partition as a client commits it. */
typedef struct {
    int64_t offset;
    int32_t partition;
    int32_t leader_epoch;
} klamm_commit;

typedef struct {
    int32_t partition;
    int32_t leader_epoch;
    int64_t log_offset;
    int64_t offset;
    int64_t commit_ms;
    int64_t expire_ms;
    PyObject *metadata; /* NULL: empty */
    PyObject *topic_id; /* NULL: this partition is known to have nothing */
} klamm_entry;

/* The index is stored after the entries: numbers of entries plus one, zero where there is none. */
typedef struct {
    klamm_entry *entries;
    uint32_t count;
    uint32_t capacity;
    uint32_t slots; /* a power of two; zero while the entries are few enough to look through them all */
} klamm_table;

enum { KLAMM_FEW_ENTRIES = 16 };

static inline uint32_t *klamm_index(const klamm_table *table) {
    return (uint32_t *)(table->entries + table->capacity);
}

static inline uint32_t klamm_home(const klamm_table *table, int32_t partition) {
    uint32_t mixed = (uint32_t)partition * 0x9e3779b1u; /* spreads neighbours and strides */
    return (mixed ^ mixed >> 15) & (table->slots - 1);
}

static inline void klamm_enter(klamm_table *table, uint32_t at) {
    uint32_t *index = klamm_index(table);
    uint32_t slot = klamm_home(table, table->entries[at].partition);
    while (index[slot]) slot = (slot + 1) & (table->slots - 1);
    index[slot] = at + 1;
}

/* Room for so many entries, no more; -1 when there is no memory. */
static int klamm_resize(klamm_table *table, uint32_t capacity) {
    uint32_t slots = 0;
    if (capacity > KLAMM_FEW_ENTRIES)
        for (slots = 32; slots < capacity + capacity / 2; slots *= 2) {}
    size_t size = (size_t)capacity * sizeof(klamm_entry) + (size_t)slots * sizeof(uint32_t);
    klamm_entry *moved = (klamm_entry *)PyMem_Realloc(table->entries, size);
    if (moved == NULL) return -1;
    table->entries = moved;
    table->capacity = capacity;
    table->slots = slots;
    if (slots) {
        memset(klamm_index(table), 0, (size_t)slots * sizeof(uint32_t));
        for (uint32_t at = 0; at < table->count; at++) klamm_enter(table, at);
    }
    return 0;
}

/* The entry of a partition, or NULL. The guess is right for lookups in the order of the entries. */
static inline klamm_entry *klamm_find(const klamm_table *table, int32_t partition, uint32_t guess) {
    klamm_entry *entries = table->entries;
    if (guess < table->count && entries[guess].partition == partition) return entries + guess;
    if (!table->slots) {
        for (uint32_t at = 0; at < table->count; at++)
            if (entries[at].partition == partition) return entries + at;
        return NULL;
    }
    const uint32_t *index = klamm_index(table);
    for (uint32_t slot = klamm_home(table, partition); index[slot]; slot = (slot + 1) & (table->slots - 1))
        if (entries[index[slot] - 1].partition == partition) return entries + (index[slot] - 1);
    return NULL;
}

/* The entry of a partition, made where there was none; NULL when there is no memory. */
static inline klamm_entry *klamm_entry_of(klamm_table *table, int32_t partition, uint32_t guess) {
    klamm_entry *entry = klamm_find(table, partition, guess);
    if (entry != NULL) return entry;
    if (table->count == table->capacity) {
        if (table->capacity > UINT32_MAX / 4) return NULL;
        if (klamm_resize(table, table->capacity + table->capacity / 4 + 1)) return NULL;
    }
    entry = table->entries + table->count;
    memset(entry, 0, sizeof(klamm_entry));
    entry->partition = partition;
    table->count++;
    if (table->slots) klamm_enter(table, table->count - 1);
    return entry;
}

static inline void klamm_let_go(klamm_entry *entry) {
    Py_XDECREF(entry->metadata);
    Py_XDECREF(entry->topic_id);
}

/* Change all of an entry but its partition. `metadata` and `topic_id` are str and bytes, nothing derived:
   letting go of what they replace runs no code. */
static inline void klamm_set(klamm_entry *entry, int64_t log_offset, int64_t offset, int32_t leader_epoch,
                             int64_t commit_ms, int64_t expire_ms, PyObject *metadata, PyObject *topic_id) {
    Py_XINCREF(metadata);
    Py_XINCREF(topic_id);
    klamm_let_go(entry);
    entry->leader_epoch = leader_epoch;
    entry->log_offset = log_offset;
    entry->offset = offset;
    entry->commit_ms = commit_ms;
    entry->expire_ms = expire_ms;
    entry->metadata = metadata;
    entry->topic_id = topic_id;
}

static inline uint32_t klamm_slot_of(const klamm_table *table, uint32_t at) {
    const uint32_t *index = klamm_index(table);
    uint32_t slot = klamm_home(table, table->entries[at].partition);
    while (index[slot] != at + 1) slot = (slot + 1) & (table->slots - 1);
    return slot;
}

/* Empty a slot of the index, and close the gap: no later slot may be cut off from its home. */
static inline void klamm_unslot(klamm_table *table, uint32_t gap) {
    uint32_t *index = klamm_index(table);
    uint32_t mask = table->slots - 1;
    for (uint32_t slot = (gap + 1) & mask; index[slot]; slot = (slot + 1) & mask) {
        uint32_t home = klamm_home(table, table->entries[index[slot] - 1].partition);
        if (((slot - home) & mask) >= ((slot - gap) & mask)) {
            index[gap] = index[slot];
            gap = slot;
        }
    }
    index[gap] = 0;
}

static inline void klamm_clear(klamm_table *table) {
    for (uint32_t at = 0; at < table->count; at++) klamm_let_go(table->entries + at);
    PyMem_Free(table->entries);
    memset(table, 0, sizeof(klamm_table));
}

/* Whether there was something to remove. The last entry moves to its place. */
static inline int klamm_remove(klamm_table *table, int32_t partition) {
    klamm_entry *entry = klamm_find(table, partition, 0);
    if (entry == NULL) return 0;
    if (table->count == 1) {
        klamm_clear(table);
        return 1;
    }
    uint32_t at = (uint32_t)(entry - table->entries), last = table->count - 1;
    klamm_let_go(entry);
    if (table->slots) {
        klamm_unslot(table, klamm_slot_of(table, at));
        if (at != last) klamm_index(table)[klamm_slot_of(table, last)] = at + 1;
    }
    *entry = table->entries[last];
    table->count = last;
    /* Shrink when three quarters are unused; a failure to shrink is harmless. */
    if (last < table->capacity / 4) (void)klamm_resize(table, last);
    return 1;
}

/* A value of an offset record: version 4, short metadata, at most a topic id after it. */
typedef struct {
    int64_t offset;
    int64_t commit_ms;
    int32_t leader_epoch;
    int32_t metadata_size;
    const uint8_t *metadata;
    const uint8_t *topic_id; /* NULL: none */
} klamm_plain_value;

enum { KLAMM_VALUE_HEAD_BYTES = 15, KLAMM_VALUE_TAIL_BYTES = 9, KLAMM_TOPIC_ID_BYTES = 16 };
#define KLAMM_TOPIC_ID_TAG "\x01\x00\x10" /* one tag, number 0, 16 bytes */

/* Whether it is that plain. */
static inline int klamm_parse_plain(const uint8_t *value, int32_t size, klamm_plain_value *plain) {
    if (size <= KLAMM_VALUE_HEAD_BYTES || klamm_i16(value) != 4) return 0;
    int32_t metadata_size = value[KLAMM_VALUE_HEAD_BYTES - 1] - 1;
    if (metadata_size < 0 || metadata_size >= 0x7f) return 0;
    int32_t tail_size = size - KLAMM_VALUE_HEAD_BYTES - metadata_size;
    const uint8_t *tail = value + KLAMM_VALUE_HEAD_BYTES + metadata_size;
    if (tail_size == KLAMM_VALUE_TAIL_BYTES && tail[8] == 0)
        plain->topic_id = NULL;
    else if (tail_size == KLAMM_VALUE_TAIL_BYTES + 2 + KLAMM_TOPIC_ID_BYTES &&
             memcmp(tail + 8, KLAMM_TOPIC_ID_TAG, 3) == 0)
        plain->topic_id = tail + 11;
    else
        return 0;
    plain->offset = klamm_i64(value + 2);
    plain->leader_epoch = klamm_i32(value + 10);
    plain->metadata = value + KLAMM_VALUE_HEAD_BYTES;
    plain->metadata_size = metadata_size;
    plain->commit_ms = klamm_i64(tail);
    return 1;
}

static inline uint8_t *klamm_put_16(uint8_t *out, uint32_t value) {
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
    return out + 2;
}

static inline uint8_t *klamm_put_32(uint8_t *out, uint32_t value) {
    return klamm_put_16(klamm_put_16(out, value >> 16), value);
}

static inline uint8_t *klamm_put_64(uint8_t *out, uint64_t value) {
    return klamm_put_32(klamm_put_32(out, (uint32_t)(value >> 32)), (uint32_t)value);
}

static inline uint8_t *klamm_put_bytes(uint8_t *out, const void *bytes, size_t size) {
    memcpy(out, bytes, size);
    return out + size;
}

static inline uint8_t *klamm_put_uvarint(uint8_t *out, uint64_t value) {
    for (; value > 0x7f; value >>= 7) *out++ = (uint8_t)value | 0x80;
    *out++ = (uint8_t)value;
    return out;
}

static inline size_t klamm_uvarint_size(uint64_t value) {
    size_t size = 1;
    for (; value > 0x7f; value >>= 7) size++;
    return size;
}

/* What the records of one block have in common. */
typedef struct {
    const char *group;
    const char *topic;
    Py_ssize_t group_size;
    Py_ssize_t topic_size;
    const uint8_t *topic_id; /* NULL: none */
    int64_t commit_ms;
    int64_t expire_ms; /* -1: none, and the newest format will do */
} klamm_block;

static inline size_t klamm_key_size(const klamm_block *block) {
    return 2 + 2 + (size_t)block->group_size + 2 + (size_t)block->topic_size + 4;
}

static inline size_t klamm_value_size(const klamm_block *block, size_t metadata_size) {
    if (block->expire_ms != -1) return 2 + 8 + 2 + metadata_size + 8 + 8;
    return 2 + 8 + 4 + klamm_uvarint_size(metadata_size + 1) + metadata_size + 8 +
           (block->topic_id != NULL ? 3 + KLAMM_TOPIC_ID_BYTES : 1);
}

/* A record without the length in front of it. */
static inline size_t klamm_body_size(const klamm_block *block, int64_t offset_delta, size_t metadata_size) {
    size_t key = klamm_key_size(block), value = klamm_value_size(block, metadata_size);
    return 2 + (size_t)klamm_varint_size(offset_delta) + (size_t)klamm_varint_size((int64_t)key) + key +
           (size_t)klamm_varint_size((int64_t)value) + value + 1;
}

static inline uint8_t *klamm_put_commit(uint8_t *out, const klamm_block *block, int64_t offset_delta,
                                        const klamm_commit *commit, const char *metadata,
                                        size_t metadata_size) {
    out = klamm_put_varint(out, (int64_t)klamm_body_size(block, offset_delta, metadata_size));
    out = klamm_put_16(out, 0); /* no attributes, and the time of the batch */
    out = klamm_put_varint(out, offset_delta);
    out = klamm_put_varint(out, (int64_t)klamm_key_size(block));
    out = klamm_put_16(out, 1);
    out = klamm_put_bytes(klamm_put_16(out, (uint32_t)block->group_size), block->group, (size_t)block->group_size);
    out = klamm_put_bytes(klamm_put_16(out, (uint32_t)block->topic_size), block->topic, (size_t)block->topic_size);
    out = klamm_put_32(out, (uint32_t)commit->partition);
    out = klamm_put_varint(out, (int64_t)klamm_value_size(block, metadata_size));
    out = klamm_put_16(out, block->expire_ms != -1 ? 1 : 4);
    out = klamm_put_64(out, (uint64_t)commit->offset);
    if (block->expire_ms != -1) {
        out = klamm_put_bytes(klamm_put_16(out, (uint32_t)metadata_size), metadata, metadata_size);
        out = klamm_put_64(out, (uint64_t)block->commit_ms);
        out = klamm_put_64(out, (uint64_t)block->expire_ms);
    } else {
        out = klamm_put_32(out, (uint32_t)commit->leader_epoch);
        out = klamm_put_bytes(klamm_put_uvarint(out, metadata_size + 1), metadata, metadata_size);
        out = klamm_put_64(out, (uint64_t)block->commit_ms);
        if (block->topic_id != NULL)
            out = klamm_put_bytes(klamm_put_bytes(out, KLAMM_TOPIC_ID_TAG, 3), block->topic_id, KLAMM_TOPIC_ID_BYTES);
        else
            *out++ = 0;
    }
    *out++ = 0; /* no headers */
    return out;
}

#endif
