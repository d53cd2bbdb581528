#include "capture/ring/ring_item.h"

/* Takes the next item. Returns false at the end, or if the item exceeds the remaining bytes. */
static bool
item_take(mrd_ring_items *items, mrd_ring_item *ret_item, const uint8_t **ret_payload)
{
    uint32_t padded;

    if (items->len < sizeof(*ret_item))
        return false;
    memcpy(ret_item, items->p, sizeof(*ret_item));
    padded = ((uint32_t) ret_item->len + 7) & ~7u;
    if (ret_item->type == MRD_ITEM_END || padded > items->len - sizeof(*ret_item)) {
        items->len = 0;
        return false;
    }
    *ret_payload = items->p + sizeof(*ret_item);
    items->p += sizeof(*ret_item) + padded;
    items->len -= (uint32_t) sizeof(*ret_item) + padded;
    return true;
}

static bool
item_value(const mrd_ring_item *item, const uint8_t *payload, mrd_ring_arg *arg)
{
    uint64_t bits;

    switch (item->type) {
    case MRD_ITEM_TEXT:
    case MRD_ITEM_JSON:
        arg->v.text = (mrd_str){ (const char *) payload, item->len };
        return true;
    case MRD_ITEM_I64:
    case MRD_ITEM_U64:
    case MRD_ITEM_F64:
    case MRD_ITEM_BOOL:
    case MRD_ITEM_ID:
        if (item->len != 8)
            return false;
        memcpy(&bits, payload, 8);
        if (item->type == MRD_ITEM_F64)
            memcpy(&arg->v.d, &bits, 8);
        else if (item->type == MRD_ITEM_ID)
            arg->v.id = bits < MRD_RING_NAMES_MAX ? (uint32_t) bits : 0;
        else
            arg->v.u = bits;
        return true;
    default:
        return false; /* skip an item of a newer writer */
    }
}

bool
mrd_ring_item_next(mrd_ring_items *items, mrd_ring_arg *ret_arg)
{
    mrd_ring_item item;
    const uint8_t *payload;
    mrd_str key = { NULL, 0 };

    while (item_take(items, &item, &payload)) {
        if (item.type == MRD_ITEM_KEY) {
            key = (mrd_str){ (const char *) payload, item.len };
            continue;
        }
        if (item_value(&item, payload, ret_arg)) {
            ret_arg->type = (mrd_item_type) item.type;
            ret_arg->flags = item.flags;
            ret_arg->key = item.key;
            ret_arg->key_text = item.key == 0 ? key : (mrd_str){ NULL, 0 };
            return true;
        }
        key = (mrd_str){ NULL, 0 };
    }
    return false;
}
