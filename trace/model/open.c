#include "trace/model/open.h"

#include <stdlib.h>

#include "base/vec.h"

mrd_open *
mrd_open_new(const mrd_event *ev)
{
    size_t size = sizeof(mrd_open), args_size = ev->arg_count * sizeof(mrd_arg);
    size_t flows_size = ev->flow_count * sizeof(mrd_flow);
    mrd_open *open;
    mrd_arg *args;
    mrd_flow *flows;
    char *text;

    size += args_size + flows_size;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        size += mrd_arg_has_text(&ev->args[i]) ? ev->args[i].len : 0;
    if ((open = malloc(size)) == NULL)
        return NULL;
    args = (mrd_arg *) (void *) (open + 1);
    flows = (mrd_flow *) (void *) (args + ev->arg_count);
    text = (char *) (flows + ev->flow_count);
    open->told = 0;
    open->below = NULL;
    open->mark = 0;
    open->bytes = size;
    open->ev = *ev;
    open->ev.args = args;
    open->ev.flows = flows;
    if (flows_size > 0)
        memcpy(flows, ev->flows, flows_size);
    if (args_size > 0)
        memcpy(args, ev->args, args_size);
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (mrd_arg_has_text(&args[i])) {
            memcpy(text, args[i].v.text, args[i].len);
            args[i].v.text = text;
            text += args[i].len;
        }
    }
    return open;
}

void
mrd_open_free(mrd_open *open)
{
    free(open);
}

void
mrd_joiner_fini(mrd_joiner *joiner)
{
    free(joiner->v);
    mrd_map_fini(&joiner->end_keys);
    *joiner = (mrd_joiner){ 0 };
}

static bool
arg_same(const mrd_arg *a, const mrd_arg *b)
{
    if (a->type != b->type)
        return false;
    if (mrd_arg_has_text(a))
        return a->len == b->len && memcmp(a->v.text, b->v.text, a->len) == 0;
    return a->type == MRD_ARG_STR ? a->v.sid == b->v.sid : a->v.u == b->v.u;
}

static mrd_err
join_end_key(mrd_joiner *joiner, mrd_sid key, mrd_sid *ret_key)
{
    mrd_map_key at = { key, 0, 0 };
    uint32_t sid = mrd_map_get(&joiner->end_keys, at);
    mrd_str text = mrd_strtab_get(joiner->strings, key);
    mrd_buf name = { 0 };
    mrd_err err;

    if (sid != MRD_MAP_NONE) {
        *ret_key = sid;
        return MRD_OK;
    }
    mrd_buf_text(&name, "end.");
    mrd_buf_str(&name, text);
    if ((err = name.err) == MRD_OK)
        *ret_key = sid =
            mrd_strtab_add(joiner->strings, (mrd_str){ (const char *) name.p, name.len });
    mrd_buf_fini(&name);
    if (err == MRD_OK && sid != MRD_SID_FULL)
        /* without the entry, the key is only formatted again next time */
        (void) mrd_map_put(&joiner->end_keys, at, sid);
    return err;
}

mrd_err
mrd_join(mrd_joiner *joiner, const mrd_event *start, const mrd_arg *end, size_t n_end,
         const mrd_arg **ret_args, uint32_t *ret_n)
{
    size_t count = start->arg_count;

    if (n_end == 0) {
        *ret_args = start->args;
        *ret_n = start->arg_count;
        return MRD_OK;
    }
    if (!MRD_VEC_ROOM(joiner->v, count, joiner->cap, n_end))
        return MRD_NOMEM;
    if (count > 0)
        memcpy(joiner->v, start->args, count * sizeof(*joiner->v));
    for (size_t i = 0; i < n_end; i++) {
        mrd_arg *to = &joiner->v[count];
        bool same = false;

        *to = end[i];
        for (uint32_t k = 0; k < start->arg_count && !same; k++) {
            if (start->args[k].key != end[i].key)
                continue;
            same = arg_same(&start->args[k], &end[i]);
            if (join_end_key(joiner, end[i].key, &to->key) != MRD_OK)
                return MRD_NOMEM;
        }
        count += !same;
    }
    *ret_args = joiner->v;
    *ret_n = (uint32_t) count;
    return MRD_OK;
}

/* ---- The table ---- */

void
mrd_open_table_fini(mrd_open_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        mrd_open_free(table->slots[i].open);
    free(table->slots);
    mrd_map_fini(&table->first);
    *table = (mrd_open_table){ 0 };
}

/* Returns a free slot, MRD_OPEN_NONE if out of memory. */
static uint32_t
open_slot(mrd_open_table *table)
{
    if (table->n == 0)
        table->oldest = table->newest = table->free = MRD_OPEN_NONE;
    if (table->free != MRD_OPEN_NONE)
        return table->free;
    if (!MRD_VEC_ROOM(table->slots, table->n, table->cap, 1))
        return MRD_OPEN_NONE;
    table->slots[table->n] = (mrd_open_slot){ .newer = MRD_OPEN_NONE };
    table->free = (uint32_t) table->n++;
    return table->free;
}

mrd_err
mrd_open_put(mrd_open_table *table, mrd_map_key key, mrd_open *open)
{
    uint32_t slot = open_slot(table), at;

    if (slot == MRD_OPEN_NONE)
        return MRD_NOMEM;
    at = mrd_map_get(&table->first, key);
    if (at == MRD_MAP_NONE && mrd_map_put(&table->first, key, slot) != MRD_OK)
        return MRD_NOMEM;
    table->free = table->slots[slot].newer;
    table->slots[slot] =
        (mrd_open_slot){ open, key, table->newest, MRD_OPEN_NONE, slot, MRD_OPEN_NONE };
    if (at != MRD_MAP_NONE) {
        uint32_t last = table->slots[at].before_same;

        table->slots[last].next_same = slot;
        table->slots[slot].before_same = last;
        table->slots[at].before_same = slot;
    }
    if (table->newest == MRD_OPEN_NONE)
        table->oldest = slot;
    else
        table->slots[table->newest].newer = slot;
    table->newest = slot;
    table->used++;
    table->bytes += open->bytes;
    return MRD_OK;
}

uint32_t
mrd_open_first(const mrd_open_table *table, mrd_map_key key)
{
    /* MRD_MAP_NONE equals MRD_OPEN_NONE */
    return mrd_map_get(&table->first, key);
}

uint32_t
mrd_open_next(const mrd_open_table *table, uint32_t slot)
{
    return table->slots[slot].next_same;
}

uint32_t
mrd_open_oldest(const mrd_open_table *table)
{
    return table->n == 0 ? MRD_OPEN_NONE : table->oldest;
}

mrd_open *
mrd_open_at(const mrd_open_table *table, uint32_t slot)
{
    return table->slots[slot].open;
}

static void
open_unchain(mrd_open_table *table, uint32_t slot)
{
    mrd_open_slot *open_slot = &table->slots[slot];
    uint32_t first = mrd_map_get(&table->first, open_slot->key);

    if (first == slot) {
        if (open_slot->next_same == MRD_OPEN_NONE) {
            mrd_map_remove(&table->first, open_slot->key);
            return;
        }
        table->slots[open_slot->next_same].before_same = open_slot->before_same;
        /* cannot fail, because the key already has an entry */
        (void) mrd_map_put(&table->first, open_slot->key, open_slot->next_same);
        return;
    }
    table->slots[open_slot->before_same].next_same = open_slot->next_same;
    if (open_slot->next_same == MRD_OPEN_NONE)
        table->slots[first].before_same = open_slot->before_same;
    else
        table->slots[open_slot->next_same].before_same = open_slot->before_same;
}

mrd_open *
mrd_open_take(mrd_open_table *table, uint32_t slot)
{
    mrd_open_slot *open_slot = &table->slots[slot];
    mrd_open *open = open_slot->open;

    open_unchain(table, slot);
    if (open_slot->older == MRD_OPEN_NONE)
        table->oldest = open_slot->newer;
    else
        table->slots[open_slot->older].newer = open_slot->newer;
    if (open_slot->newer == MRD_OPEN_NONE)
        table->newest = open_slot->older;
    else
        table->slots[open_slot->newer].older = open_slot->older;
    *open_slot = (mrd_open_slot){ .newer = table->free };
    table->free = slot;
    table->used--;
    table->bytes -= open->bytes;
    return open;
}
