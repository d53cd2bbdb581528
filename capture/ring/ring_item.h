/* capture/ring/ring_item.h - reads the items of a record's body. The body may hold any bytes, also
 * invalid ones. */
#ifndef MRD_CAPTURE_RING_RING_ITEM_H
#define MRD_CAPTURE_RING_RING_ITEM_H

#include <stdbool.h>

#include "base/buf.h"
#include "capture/ring/ring.h"

/* The part of a body that was not read yet. Initialise it with { ev.body, ev.body_len }. */
typedef struct {
    const uint8_t *p;
    uint32_t len;
} mrd_ring_items;
typedef struct {
    /* One of I64, U64, F64, BOOL, TEXT, JSON or ID. An item of type KEY is not returned. Its text
     * becomes the key_text of the next item. */
    mrd_item_type type;
    uint8_t flags; /* MRD_ITEMF_* */
    uint32_t key;  /* dictionary id; 0 means that key_text has the key */
    mrd_str key_text;
    union {
        int64_t i;
        uint64_t u;
        double d;
        uint32_t id;
        mrd_str text;
    } v;
} mrd_ring_arg;
/* Gets the next item. Returns false at the end or at invalid bytes. */
bool mrd_ring_item_next(mrd_ring_items *items, mrd_ring_arg *ret_arg);

#endif
