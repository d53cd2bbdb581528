#include "agent/rings/open_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static size_t
slot_of(const mrd_open_spans *opens, uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return (size_t) (key ^ key >> 32) & (opens->n_slots - 1);
}

void
mrd_open_spans_fini(mrd_open_spans *opens)
{
    for (size_t i = 0; i < opens->n_slots; i++)
        for (mrd_open_span *span = opens->slots[i], *next; span != NULL; span = next) {
            next = span->next;
            free(span);
        }
    free(opens->slots);
    free(opens->taken);
    *opens = (mrd_open_spans){ 0 };
}

mrd_open_span *
mrd_open_spans_find(mrd_open_spans *opens, uint64_t key, bool early)
{
    mrd_open_span *span = opens->n_slots == 0 ? NULL : opens->slots[slot_of(opens, key)];

    while (span != NULL && (span->key != key || span->early != early))
        span = span->next;
    return span;
}

static bool
grow(mrd_open_spans *opens)
{
    mrd_open_spans bigger = { .n_slots = opens->n_slots == 0 ? 64 : opens->n_slots * 2 };

    if ((bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots))) == NULL)
        return false;
    for (size_t i = 0; i < opens->n_slots; i++)
        for (mrd_open_span *span = opens->slots[i], *next; span != NULL; span = next) {
            size_t at = slot_of(&bigger, span->key);

            next = span->next;
            span->next = bigger.slots[at];
            bigger.slots[at] = span;
        }
    free(opens->slots);
    opens->slots = bigger.slots;
    opens->n_slots = bigger.n_slots;
    return true;
}

mrd_err
mrd_open_spans_add(mrd_open_spans *opens, uint64_t key, bool early, mrd_local_ns since,
                   const mrd_event *ev)
{
    size_t text = 0, args = ev->arg_count * sizeof(mrd_arg), at;
    mrd_open_span *span;
    char *to;

    if (opens->n >= MRD_OPEN_SPANS_MAX)
        return MRD_LIMIT;
    if (opens->n >= opens->n_slots && !grow(opens))
        return MRD_NOMEM;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        text += mrd_arg_has_text(&ev->args[i]) ? ev->args[i].len : 0;
    if (opens->bytes + sizeof(*span) + args + text > MRD_OPEN_SPANS_BYTES)
        return MRD_LIMIT;
    if ((span = malloc(sizeof(*span) + args + text)) == NULL)
        return MRD_NOMEM;
    *span = (mrd_open_span){
        .key = key, .bytes = sizeof(*span) + args + text, .early = early, .since = since, .ev = *ev
    };
    if (args > 0)
        memcpy(span->args, ev->args, args);
    to = (char *) span->args + args;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (mrd_arg_has_text(&span->args[i])) {
            memcpy(to, span->args[i].v.text, span->args[i].len);
            span->args[i].v.text = to;
            to += span->args[i].len;
        }
    span->ev.args = span->args;
    span->ev.flows = NULL;
    span->ev.flow_count = 0;
    at = slot_of(opens, key);
    span->next = opens->slots[at];
    opens->slots[at] = span;
    opens->n++;
    opens->bytes += span->bytes;
    opens->n_early += early;
    return MRD_OK;
}

size_t
mrd_open_spans_memory(const mrd_open_spans *opens)
{
    return opens->bytes + opens->n_slots * sizeof(*opens->slots) +
           opens->cap_taken * sizeof(*opens->taken);
}

static void
note_taken(mrd_open_spans *opens, const mrd_open_span *span)
{
    if (!MRD_VEC_ROOM(opens->taken, opens->n_taken, opens->cap_taken, 1)) {
        opens->taken_lost = true;
        return;
    }
    opens->taken[opens->n_taken][0] = span->key;
    opens->taken[opens->n_taken++][1] = span->early;
}

void
mrd_open_spans_saved(mrd_open_spans *opens, mrd_open_span *const *spans, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        opens->n_saved += !spans[i]->saved;
        spans[i]->saved = true;
    }
}

void
mrd_open_spans_unsave(mrd_open_spans *opens)
{
    for (size_t i = 0; i < opens->n_slots; i++)
        for (mrd_open_span *span = opens->slots[i]; span != NULL; span = span->next)
            span->saved = false;
    opens->n_saved = opens->n_taken = 0;
    opens->taken_lost = false;
}

void
mrd_open_spans_take(mrd_open_spans *opens, mrd_open_span *span)
{
    mrd_open_span **at = &opens->slots[slot_of(opens, span->key)];

    while (*at != span)
        at = &(*at)->next;
    *at = span->next;
    opens->n--;
    opens->bytes -= span->bytes;
    opens->n_early -= span->early;
    if (span->saved) {
        opens->n_saved--;
        note_taken(opens, span);
    }
}
