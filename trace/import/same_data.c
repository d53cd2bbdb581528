#include "trace/import/same_data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/same_data_int.h"

/* An input with fewer events is not a copy, because they could be equal by chance. */
#define EVENTS_FEWEST 8u
/* Minimum of events of an input that are compared with another one. */
#define SAMPLES_FEWEST 4u
/* Maximum of samples of all inputs; they use 16 MiB while they are compared. */
#define SAMPLES_MOST ((size_t) 1 << 20)
/* Maximum of inputs that share an event. An event that more inputs share is ignored. */
#define SHARERS_MOST 256u

/* ---- The sample of one input ---- */

/* Returns the hash of the process if it is certain, else 0. */
static uint64_t
process_hash(const mrd_catalog *cat, const mrd_event *ev)
{
    mrd_proc_id process = mrd_catalog_borrow_track(cat, ev->track)->process;
    const mrd_process *p = mrd_catalog_borrow_process(cat, process);

    return p->scope == 0 ? (uint64_t) process + 1 : 0;
}

/* Returns the largest hash of a sample that keeps one of 2^shift events. */
static uint64_t
hash_limit(unsigned shift)
{
    return UINT64_MAX >> shift;
}

static void
thin_sample(mrd_sample *sample)
{
    size_t kept = 0;

    sample->shift++;
    for (size_t i = 0; i < sample->n; i++)
        if (sample->v[i] <= hash_limit(sample->shift))
            sample->v[kept++] = sample->v[i];
    sample->n = kept;
}

void
mrd_sample_add(mrd_sample *sample, const mrd_catalog *cat, const mrd_event *ev)
{
    uint64_t hash;

    if (ev->kind == MRD_FLOW || ev->kind == MRD_LOSS || sample->failed)
        return;
    sample->count++;
    hash =
        mrd_hash64((const uint64_t[]){ (uint64_t) ev->ts.ns, (uint64_t) ev->dur_ns,
                                       (uint64_t) ev->name << 8 | ev->kind, process_hash(cat, ev),
                                       ev->kind == MRD_COUNTER ? (uint64_t) ev->ivalue : 0 },
                   5 * sizeof(uint64_t), 0);
    if (hash > hash_limit(sample->shift))
        return;
    while (sample->n == MRD_SAMPLE_MOST && sample->shift < 63)
        thin_sample(sample);
    if (hash > hash_limit(sample->shift))
        return;
    if (!MRD_VEC_ROOM(sample->v, sample->n, sample->cap, 1)) {
        sample->failed = true;
        return;
    }
    sample->v[sample->n++] = hash;
}

void
mrd_sample_fini(mrd_sample *sample)
{
    free(sample->v);
    *sample = (mrd_sample){ 0 };
}

mrd_err
mrd_same_data_add(mrd_read_once *once, const mrd_read_input *input)
{
    mrd_read_input *added;

    if (!MRD_VEC_ROOM(once->inputs, once->n_inputs, once->cap_inputs, 1)) {
        mrd_sample sample = input->sample;

        mrd_sample_fini(&sample);
        return MRD_NOMEM;
    }
    added = &once->inputs[once->n_inputs++];
    *added = *input;
    qsort(added->sample.v, added->sample.n, sizeof(*added->sample.v), mrd_u64_order);
    return MRD_OK;
}

/* ---- Comparison ---- */

/* Two inputs that share events, a < b. */
typedef struct {
    uint32_t a, b;
    uint64_t common; /* hashes that both samples have */
} input_pair;

typedef struct {
    uint64_t hash;
    uint32_t input; /* index in `once` */
} sampled;

typedef struct {
    mrd_read_once *once;
    mrd_catalog *cat;
    mrd_whose *whose;
    sampled *all; /* by hash, then input, without duplicates */
    size_t n;
    mrd_map index; /* index of pairs */
    input_pair *pairs;
    size_t n_pairs, cap_pairs;
    uint32_t *copy_of; /* by input; MRD_NO_INPUT means that it is used */
} comparison;

static int
sampled_order(const void *a, const void *b)
{
    const sampled *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->input < y->input ? -1 : x->input > y->input;
}

/* Collects the samples of all inputs, reduced to SAMPLES_MOST. Errors: NOMEM. */
static mrd_err
collect_samples(comparison *c)
{
    size_t total = 0, kept = 0;

    for (size_t i = 0; i < c->once->n_inputs; i++) {
        while (total + c->once->inputs[i].sample.n > SAMPLES_MOST) {
            total = 0;
            for (size_t k = 0; k < c->once->n_inputs; k++) {
                if (c->once->inputs[k].sample.n > 1)
                    thin_sample(&c->once->inputs[k].sample);
                total += k < i ? c->once->inputs[k].sample.n : 0;
            }
        }
        total += c->once->inputs[i].sample.n;
    }
    if ((c->all = malloc((total + 1) * sizeof(*c->all))) == NULL)
        return MRD_NOMEM;
    for (uint32_t i = 0; i < c->once->n_inputs; i++) {
        const mrd_sample *s = &c->once->inputs[i].sample;

        for (size_t k = 0; k < s->n && !s->failed; k++)
            c->all[c->n++] = (sampled){ s->v[k], i };
    }
    qsort(c->all, c->n, sizeof(*c->all), sampled_order);
    for (size_t i = 0; i < c->n; i++)
        if (kept == 0 || sampled_order(&c->all[kept - 1], &c->all[i]) != 0)
            c->all[kept++] = c->all[i];
    c->n = kept;
    return MRD_OK;
}

/* Returns the end of the samples with the same hash as sample `at`. */
static size_t
sharers_end(const comparison *c, size_t at)
{
    size_t end = at + 1;

    while (end < c->n && c->all[end].hash == c->all[at].hash)
        end++;
    return end;
}

static mrd_err
count_pair(comparison *c, uint32_t a, uint32_t b)
{
    mrd_map_key key = { a, b, 0 };
    uint32_t pair = mrd_map_get(&c->index, key);

    if (pair == MRD_MAP_NONE) {
        if (mrd_whose_contradict(c->whose, a, b))
            return MRD_OK;
        if (!MRD_VEC_ROOM(c->pairs, c->n_pairs, c->cap_pairs, 1))
            return MRD_NOMEM;
        pair = (uint32_t) c->n_pairs++;
        c->pairs[pair] = (input_pair){ .a = a, .b = b };
        if (mrd_map_put(&c->index, key, pair) != MRD_OK)
            return MRD_NOMEM;
    }
    c->pairs[pair].common++;
    return MRD_OK;
}

static mrd_err
find_pairs(comparison *c)
{
    mrd_err err = MRD_OK;

    for (size_t at = 0, end; at < c->n && err == MRD_OK; at = end) {
        end = sharers_end(c, at);
        for (size_t i = at; i < end && end - at <= SHARERS_MOST; i++)
            for (size_t k = i + 1; k < end && err == MRD_OK; k++)
                err = count_pair(c, c->all[i].input, c->all[k].input);
    }
    return err;
}

/* Returns the number of different hashes of an input that the other input would also have
 * sampled. */
static uint64_t
comparable(const comparison *c, uint32_t input, uint32_t other)
{
    const mrd_sample *s = &c->once->inputs[input].sample;
    unsigned shift = c->once->inputs[other].sample.shift;
    uint64_t n = 0;

    for (size_t i = 0; i < s->n && s->v[i] <= hash_limit(shift); i++)
        n += i == 0 || s->v[i] != s->v[i - 1];
    return n;
}

/* Accepts a few differences, because damage and rounding may change events. */
static bool
is_nearly_all(uint64_t part, uint64_t all)
{
    return all >= SAMPLES_FEWEST && part * 50 >= all * 49;
}

static bool
is_used(const comparison *c, uint32_t input)
{
    return c->copy_of[input] == MRD_NO_INPUT;
}

static uint64_t
count_of(const comparison *c, uint32_t input)
{
    return c->once->inputs[input].sample.count;
}

/* Returns true if nearly all events of `part` are in `whole`. */
static bool
holds_all(const comparison *c, const input_pair *pair, uint32_t part, uint32_t whole)
{
    return count_of(c, part) >= EVENTS_FEWEST && count_of(c, part) <= count_of(c, whole) &&
           is_nearly_all(pair->common, comparable(c, part, whole));
}

/* Returns which of two equal inputs to use: the input with a rank, else the complete one, else the
 * first one. */
static uint32_t
better_of(const comparison *c, uint32_t a, uint32_t b)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(c->cat, &n);
    bool a_whole = inputs[c->once->inputs[a].input].error == MRD_SID_EMPTY;
    bool b_whole = inputs[c->once->inputs[b].input].error == MRD_SID_EMPTY;

    if ((c->whose[a].rank < 0) != (c->whose[b].rank < 0))
        return c->whose[a].rank < 0 ? b : a;
    return a_whole || !b_whole ? a : b;
}

static void
find_copies(comparison *c)
{
    for (size_t i = 0; i < c->n_pairs; i++) {
        const input_pair *p = &c->pairs[i];
        uint32_t use;

        if (!is_used(c, p->a) || !is_used(c, p->b) || !holds_all(c, p, p->a, p->b) ||
            !holds_all(c, p, p->b, p->a))
            continue;
        use = better_of(c, p->a, p->b);
        c->copy_of[use == p->a ? p->b : p->a] = use;
    }
}

/* Finds inputs that several smaller inputs contain together. Errors: NOMEM. */
static mrd_err
find_merged(comparison *c, uint32_t *ret_parts)
{
    uint64_t *covered = calloc(c->once->n_inputs + 1, sizeof(*covered));

    if (covered == NULL)
        return MRD_NOMEM;
    for (size_t at = 0, end; at < c->n; at = end) {
        end = sharers_end(c, at);
        for (size_t i = at; i < end && end - at <= SHARERS_MOST; i++) {
            bool is_covered = false;

            for (size_t k = at; k < end && !is_covered; k++)
                is_covered = is_used(c, c->all[k].input) &&
                             count_of(c, c->all[k].input) < count_of(c, c->all[i].input) &&
                             !mrd_whose_contradict(c->whose, c->all[i].input, c->all[k].input);
            covered[c->all[i].input] += is_covered;
        }
    }
    for (uint32_t i = 0; i < c->once->n_inputs; i++) {
        uint32_t first = MRD_NO_INPUT;

        for (size_t k = 0;
             k < c->n_pairs && is_used(c, i) && is_nearly_all(covered[i], comparable(c, i, i));
             k++) {
            const input_pair *p = &c->pairs[k];
            uint32_t other = p->a == i ? p->b : p->a;

            if ((p->a != i && p->b != i) || !is_used(c, other) ||
                count_of(c, other) >= count_of(c, i))
                continue;
            ret_parts[i]++;
            first = other < first ? other : first;
        }
        if (ret_parts[i] > 1)
            c->copy_of[i] = first;
    }
    free(covered);
    return MRD_OK;
}

static void
find_parts(comparison *c)
{
    for (size_t i = 0; i < c->n_pairs; i++) {
        const input_pair *p = &c->pairs[i];

        if (!is_used(c, p->a) || !is_used(c, p->b))
            continue;
        if (holds_all(c, p, p->a, p->b))
            c->copy_of[p->a] = p->b;
        else if (holds_all(c, p, p->b, p->a))
            c->copy_of[p->b] = p->a;
    }
}

/* ---- The result ---- */

static mrd_str
path_of(const comparison *c, uint32_t input)
{
    size_t n;
    const mrd_input *inputs = mrd_catalog_inputs(c->cat, &n);

    return mrd_catalog_text(c->cat, inputs[c->once->inputs[input].input].path);
}

/* Removes a copy from store and catalog. A damaged copy stays incomplete, because the contents of
 * its unreadable part are unknown. */
static mrd_err
skip_input(const comparison *c, uint32_t input, uint32_t parts)
{
    const mrd_read_input *read = &c->once->inputs[input];
    size_t n;
    mrd_input *in = &mrd_catalog_inputs(c->cat, &n)[read->input];
    const bool is_damaged = in->state == MRD_INPUT_INCOMPLETE;
    mrd_buf why = { 0 };

    if (is_damaged)
        mrd_buf_fmt(&why, MRD_STR_FMT ". ", MRD_STR_ARG(mrd_catalog_text(c->cat, in->error)));
    mrd_buf_fmt(&why, "'" MRD_STR_FMT "' has no other events than '" MRD_STR_FMT "'",
                MRD_STR_ARG(mrd_catalog_text(c->cat, in->path)),
                MRD_STR_ARG(path_of(c, c->copy_of[input])));
    if (parts > 1)
        mrd_buf_fmt(&why, " and %" PRIu32 " other input%s", parts - 1, mrd_plural(parts - 1));
    mrd_buf_text(&why, ": used once");
    *in = (mrd_input){ .path = in->path,
                       .format = in->format,
                       .error = mrd_catalog_intern(c->cat, mrd_buf_cstr(&why)),
                       .state = is_damaged ? MRD_INPUT_INCOMPLETE : MRD_INPUT_SKIPPED,
                       .bytes = in->bytes };
    mrd_stream_clear(read->stream);
    for (mrd_proc_id i = 0; i < mrd_catalog_processes(c->cat); i++) {
        mrd_process *p = mrd_catalog_borrow_process(c->cat, i);

        if (p->scope == read->input + 1)
            p->profile = MRD_PROFILE_NONE;
    }
    mrd_buf_fini(&why);
    return why.err;
}

/* Notes inputs of one process that share only a part of their events. */
static void
note_overlaps(const comparison *c)
{
    for (size_t i = 0; i < c->n_pairs; i++) {
        const input_pair *p = &c->pairs[i];
        uint64_t n, part = comparable(c, p->a, p->b), other = comparable(c, p->b, p->a);

        n = part < other ? part : other;
        if (!is_used(c, p->a) || !is_used(c, p->b) || p->common < EVENTS_FEWEST ||
            p->common * 20 < n || !mrd_whose_agree(c->whose, p->a, p->b))
            continue;
        mrd_catalog_note(c->cat,
                         "about %" PRIu64 " %% of the events of '" MRD_STR_FMT
                         "' are in '" MRD_STR_FMT "' too, and count twice",
                         p->common * 100 / n, MRD_STR_ARG(path_of(c, part <= other ? p->a : p->b)),
                         MRD_STR_ARG(path_of(c, part <= other ? p->b : p->a)));
    }
}

static mrd_err
skip_copies(const comparison *c, const uint32_t *parts)
{
    size_t skipped = 0, first = 0, n;
    mrd_err err = MRD_OK;

    for (uint32_t i = 0; i < c->once->n_inputs && err == MRD_OK; i++) {
        if (is_used(c, i))
            continue;
        first = skipped++ == 0 ? i : first;
        err = skip_input(c, i, parts[i]);
    }
    if (skipped > 0 && err == MRD_OK) {
        const mrd_input *inputs = mrd_catalog_inputs(c->cat, &n);

        mrd_catalog_note(
            c->cat, MRD_STR_FMT "%s",
            MRD_STR_ARG(mrd_catalog_text(c->cat, inputs[c->once->inputs[first].input].error)),
            skipped > 1 ? ", and further inputs are copies like it" : "");
    }
    return err;
}

static mrd_err
compare_inputs(comparison *c)
{
    size_t n = c->once->n_inputs;
    uint32_t *parts = calloc(n + 1, sizeof(*parts));
    mrd_err err = MRD_NOMEM;

    c->copy_of = malloc((n + 1) * sizeof(*c->copy_of));
    if (parts != NULL && c->copy_of != NULL) {
        memset(c->copy_of, 0xff, (n + 1) * sizeof(*c->copy_of));
        err = collect_samples(c);
    }
    if (err == MRD_OK)
        err = find_pairs(c);
    if (err == MRD_OK) {
        find_copies(c);
        err = find_merged(c, parts);
    }
    if (err == MRD_OK) {
        find_parts(c);
        note_overlaps(c);
        err = skip_copies(c, parts);
    }
    free(parts);
    free(c->copy_of);
    free(c->all);
    free(c->pairs);
    mrd_map_fini(&c->index);
    return err;
}

mrd_err
mrd_same_data_resolve(mrd_read_once *once, mrd_catalog *cat, mrd_store *store)
{
    comparison c = { .once = once, .cat = cat };
    mrd_err err;

    if (once->n_inputs < 2)
        return MRD_OK;
    if ((c.whose = mrd_whose_new(once, cat)) == NULL)
        return MRD_NOMEM;
    err = compare_inputs(&c);
    if (err == MRD_OK)
        err = mrd_windows_join(once, cat, store);
    if (err == MRD_OK)
        err = mrd_files_name(cat);
    free(c.whose);
    return err;
}
