/*
 * capture/ring_item.h - the items of a record's body, as its reader takes them. Any bytes are fine.
 */
#ifndef MRD_CAPTURE_RING_ITEM_H
#define MRD_CAPTURE_RING_ITEM_H

#include <stdbool.h>

#include "base/buf.h"
#include "capture/ring.h"

/* Items of a body. Start with { ev.body, ev.body_len }; false at the end or at nonsense. */
typedef struct {
    const uint8_t *p;
    uint32_t len;
} mrd_ring_items;
typedef struct {
    mrd_item_type type; /* I64, U64, F64, BOOL, TEXT, JSON, ID; an inline key is already in key */
    uint8_t flags;      /* MRD_ITEMF_* */
    uint32_t key;       /* dictionary id, 0: key_text */
    mrd_str key_text;
    union {
        int64_t i;
        uint64_t u;
        double d;
        uint32_t id;
        mrd_str text;
    } v;
} mrd_ring_arg;
bool mrd_ring_item_next(mrd_ring_items *items, mrd_ring_arg *ret_arg);

#endif
