#include "capture/ring/ring_dict.h"

#include <stdlib.h>

mrd_err
mrd_ring_dict_init(mrd_ring_dict_copy *dict, uint32_t len)
{
    memset(dict, 0, sizeof(*dict));
    dict->len = len;
    dict->bytes = malloc(len);
    return dict->bytes == NULL ? MRD_NOMEM : MRD_OK;
}

void
mrd_ring_dict_fini(mrd_ring_dict_copy *dict)
{
    free(dict->bytes);
    free(dict->text);
    free(dict->track);
    free(dict->thread);
    memset(dict, 0, sizeof(*dict));
}

/* Makes sure that p[index] exists; new elements are zero. Returns false if out of memory. */
static bool
grow(void **p, uint32_t *cap, uint32_t index, size_t size)
{
    uint32_t want = *cap == 0 ? 64 : *cap;
    void *more;

    if (index < *cap)
        return true;
    while (want <= index)
        want *= 2;
    if ((more = realloc(*p, (size_t) want * size)) == NULL)
        return false;
    memset((uint8_t *) more + (size_t) *cap * size, 0, (size_t) (want - *cap) * size);
    *p = more;
    *cap = want;
    return true;
}

static mrd_err
take_text(mrd_ring_dict_copy *dict, uint32_t id, mrd_str text)
{
    void *p = dict->text;

    if (!grow(&p, &dict->text_cap, id, sizeof(*dict->text)))
        return MRD_NOMEM;
    dict->text = p;
    /* keep the first definition, because ids never change their meaning */
    if (dict->text[id].p == NULL)
        dict->text[id] = text;
    return MRD_OK;
}

static mrd_err
take_track(mrd_ring_dict_copy *dict, uint32_t id, const mrd_ring_track *def, mrd_str name)
{
    void *p = dict->track;

    if (!grow(&p, &dict->track_cap, id, sizeof(*dict->track)))
        return MRD_NOMEM;
    dict->track = p;
    if (dict->track[id].def.kind == 0)
        dict->track[id] = (mrd_ring_track_info){ *def, name };
    return MRD_OK;
}

static mrd_err
take_thread(mrd_ring_dict_copy *dict, const mrd_ring_dict *ring_dict, mrd_str name, mrd_why *why)
{
    uint32_t n = dict->thread_count;
    void *p = dict->thread;

    if (n > 0 && ring_dict->pos < dict->thread[n - 1].pos)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring dictionary: thread entries out of order");
    if (!grow(&p, &dict->thread_cap, n, sizeof(*dict->thread)))
        return MRD_NOMEM;
    dict->thread = p;
    dict->thread[dict->thread_count++] =
        (mrd_ring_thread){ ring_dict->pos, (int32_t) ring_dict->id, name };
    return MRD_OK;
}

/* Reads the dictionary entry at offset `at`. `left` bytes are committed from there on. Stores the
 * entry's length in *ret_len. */
static mrd_err
take_entry(mrd_ring_dict_copy *dict, uint32_t at, uint32_t left, uint32_t *ret_len, mrd_why *why)
{
    mrd_ring_dict ring_dict;
    mrd_ring_track def = { 0 };
    uint32_t fixed = sizeof(ring_dict);
    mrd_str text;
    mrd_err err = MRD_OK;

    if (left < sizeof(ring_dict))
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring dictionary: entry cut at %u", (unsigned) at);
    memcpy(&ring_dict, dict->bytes + at, sizeof(ring_dict));
    if (ring_dict.type == MRD_DICT_TRACK)
        fixed += (uint32_t) sizeof(def);
    if (ring_dict.len % 8 != 0 || ring_dict.len > left || ring_dict.len < fixed ||
        ring_dict.text_len > ring_dict.len - fixed)
        return mrd_why_set(why, MRD_CORRUPT, 0, "ring dictionary: entry at %u has length %u",
                           (unsigned) at, (unsigned) ring_dict.len);
    text = (mrd_str){ (const char *) dict->bytes + at + fixed, ring_dict.text_len };
    if (ring_dict.type == MRD_DICT_THREAD) {
        err = take_thread(dict, &ring_dict, text, why);
    } else if (ring_dict.type == MRD_DICT_TEXT || ring_dict.type == MRD_DICT_TRACK) {
        if (ring_dict.id == 0 || ring_dict.id >= MRD_RING_NAMES_MAX)
            return mrd_why_set(why, MRD_CORRUPT, 0, "ring dictionary: id %u at %u",
                               (unsigned) ring_dict.id, (unsigned) at);
        if (ring_dict.type == MRD_DICT_TRACK)
            memcpy(&def, dict->bytes + at + sizeof(ring_dict), sizeof(def));
        err = ring_dict.type == MRD_DICT_TEXT ? take_text(dict, ring_dict.id, text)
                                              : take_track(dict, ring_dict.id, &def, text);
    }
    *ret_len = ring_dict.len;
    return err;
}

mrd_err
mrd_ring_dict_take(mrd_ring_dict_copy *dict, uint32_t head, mrd_why *why)
{
    while (dict->used < head) {
        uint32_t len = 0;
        mrd_err err = take_entry(dict, dict->used, head - dict->used, &len, why);

        if (err != MRD_OK)
            return err;
        dict->used += len;
    }
    return MRD_OK;
}
