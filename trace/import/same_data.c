#include "trace/import/same_data.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "trace/import/same_data_int.h"

/* Minimum number of events of an input that can be dropped as a copy. An input with fewer events
 * could equal another one by chance. */
#define EVENTS_FEWEST 8u
/* Maximum number of sampled event hashes in all inputs. They take 8 MiB, and another 16 MiB during
 * the comparison. */
#define SAMPLES_MOST ((size_t) 1 << 20)
/* maximum number of candidates that are read together and compared with one input */
#define READ_MOST 256u
/* Maximum number of other inputs that are compared to find the copies of one input. A note tells
 * the user if the search ends at this limit. */
#define TRIES_MOST 4096u
/* maximum number of other inputs that are compared because they share one sampled event */
#define TRIES_EVENT 64u
/* Maximum number of smaller inputs of which a merged input can consist. */
#define PARTS_MOST 1024u
/* Maximum number of pairs of inputs that are examined for notes about common events. */
#define PAIRS_MOST ((size_t) 1 << 16)

/* ---- The sample of one input ---- */

/* Returns the largest hash that a sample with this `shift` can contain. Such a sample keeps about
 * one of 2^shift events. Samples with different `shift` are compared up to the lower limit. */
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

/* Adds an event to the sample. Skips unfinished spans, because another copy of the file may have
 * the end of the span. */
void
mrd_sample_add(mrd_sample *sample, const mrd_event *ev)
{
    uint64_t hash;

    if (sample->count == 0 || mrd_ev_before(ev->ts, sample->first))
        sample->first = ev->ts;
    if (sample->count++ == 0 || mrd_ev_after(ev->ts, sample->last))
        sample->last = ev->ts;
    if (ev->kind == MRD_FLOW || ev->kind == MRD_LOSS || sample->failed ||
        (ev->kind == MRD_SPAN && ev->dur_ns < 0))
        return;
    hash = mrd_hash64((const uint64_t[]){ (uint64_t) ev->ts.ns, (uint64_t) ev->dur_ns,
                                          (uint64_t) ev->name << 8 | ev->kind,
                                          ev->kind == MRD_COUNTER ? (uint64_t) ev->ivalue : 0 },
                      4 * sizeof(uint64_t), 0);
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

/* Sorts the hashes of a sample and removes duplicates. */
static void
sort_sample(mrd_sample *sample)
{
    size_t kept = 0;

    if (sample->failed)
        sample->n = 0;
    if (sample->n > 1)
        qsort(sample->v, sample->n, sizeof(*sample->v), mrd_u64_order);
    for (size_t i = 0; i < sample->n; i++)
        if (kept == 0 || sample->v[kept - 1] != sample->v[i])
            sample->v[kept++] = sample->v[i];
    sample->n = kept;
}

/* Halves the samples of all inputs to limit their memory. */
static void
thin_samples(mrd_read_once *once)
{
    once->samples = 0;
    for (size_t i = 0; i < once->n_inputs; i++) {
        mrd_sample *sample = &once->inputs[i].sample;
        uint64_t *smaller = NULL;
        size_t cap = 0;

        thin_sample(sample);
        once->samples += sample->n;
        if (!MRD_VEC_ROOM(smaller, 0, cap, sample->n) || smaller == NULL)
            continue;
        memcpy(smaller, sample->v, sample->n * sizeof(*sample->v));
        free(sample->v);
        sample->v = smaller;
        sample->cap = cap;
    }
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
    sort_sample(&added->sample);
    once->samples += added->sample.n;
    while (once->samples > SAMPLES_MOST)
        thin_samples(once);
    return MRD_OK;
}

/* ---- Comparison ---- */

/* An input that is compared. */
typedef struct {
    mrd_read_input *read;
    mrd_whose *whose;
    /* index in `files` of the file that replaces this one; MRD_NO_INPUT if this file is used */
    uint32_t used_for;
    uint32_t parts; /* number of files that replace this one (several if it was merged from them) */
    bool is_pinned; /* never drop this file, because it replaces a copy that stated other facts */
    mrd_sid format;
    bool is_damaged;
    /* the `whole` for which add_merged() last considered this file, so that it does so once */
    uint64_t seen;
} file;

typedef struct {
    uint64_t hash;
    uint32_t file;
} sampled;

/* Two used files with common events. `a` and `b` are indices in `files`, a < b. */
typedef struct {
    uint32_t a, b;
    uint64_t common; /* number of hashes that both samples have */
} file_pair;

typedef struct {
    mrd_read_once *once;
    mrd_catalog *cat;
    /* ordered by number of events, the largest first; among equals, undamaged files first */
    file *files;
    uint32_t n_files;
    sampled *all; /* sampled event hashes of all files, sorted by hash, then by file */
    size_t n;
    sampled *firsts; /* each file's smallest sampled hash, sorted like `all` */
    size_t n_firsts;
    /* candidates that are read next and compared with one file; part_files has their indices in
     * `files` */
    mrd_events_part *parts;
    uint32_t *part_files;
    size_t n_parts;
    /* The candidates have another format than the file with which they are compared. Then only
     * time, length, name and process of events are compared. */
    bool by_name;
    size_t limited; /* number of searches for copies that ended at a limit */
} comparison;

static uint64_t
count_of(const comparison *cmp, uint32_t i)
{
    return cmp->files[i].read->sample.count;
}

static bool
is_used(const comparison *cmp, uint32_t i)
{
    return cmp->files[i].used_for == MRD_NO_INPUT;
}

static int
file_order(const void *a, const void *b)
{
    const file *x = a, *y = b;

    if (x->read->sample.count != y->read->sample.count)
        return x->read->sample.count > y->read->sample.count ? -1 : 1;
    if (x->is_damaged != y->is_damaged)
        return x->is_damaged - y->is_damaged;
    return x->read->input < y->read->input ? -1 : x->read->input > y->read->input;
}

static int
sampled_order(const void *a, const void *b)
{
    const sampled *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->file < y->file ? -1 : x->file > y->file;
}

/* Returns the index of the first of n sorted elements that is not before (hash, from_file). */
static size_t
find_sampled(const sampled *v, size_t n, uint64_t hash, uint32_t from_file)
{
    const sampled key = { hash, from_file };
    size_t from = 0;

    while (from < n) {
        size_t middle = from + (n - from) / 2;

        if (sampled_order(&v[middle], &key) < 0)
            from = middle + 1;
        else
            n = middle;
    }
    return from;
}

/* Returns the smallest hash of a sample; UINT64_MAX if the sample is empty. */
static uint64_t
first_hash(const mrd_sample *sample)
{
    return sample->n > 0 ? sample->v[0] : UINT64_MAX;
}

/* Collects the hashes of all samples and sorts them. Errors: NOMEM. */
static mrd_err
collect_files(comparison *cmp, mrd_whose *whose)
{
    const mrd_read_once *once = cmp->once;
    size_t n_inputs;
    const mrd_input *inputs = mrd_catalog_inputs(cmp->cat, &n_inputs);

    cmp->files = calloc(once->n_inputs + 1, sizeof(*cmp->files));
    cmp->all = malloc((once->samples + 1) * sizeof(*cmp->all));
    cmp->firsts = malloc((once->n_inputs + 1) * sizeof(*cmp->firsts));
    cmp->parts = malloc(PARTS_MOST * sizeof(*cmp->parts));
    cmp->part_files = malloc(PARTS_MOST * sizeof(*cmp->part_files));
    if (cmp->files == NULL || cmp->all == NULL || cmp->firsts == NULL || cmp->parts == NULL ||
        cmp->part_files == NULL)
        return MRD_NOMEM;
    for (size_t i = 0; i < once->n_inputs; i++)
        cmp->files[cmp->n_files++] =
            (file){ .read = &once->inputs[i],
                    .whose = &whose[i],
                    .format = inputs[once->inputs[i].input].format,
                    .is_damaged = inputs[once->inputs[i].input].error != MRD_SID_EMPTY,
                    .used_for = MRD_NO_INPUT,
                    .seen = MRD_NO_INPUT };
    qsort(cmp->files, cmp->n_files, sizeof(*cmp->files), file_order);
    for (uint32_t i = 0; i < cmp->n_files; i++) {
        const mrd_sample *sample = &cmp->files[i].read->sample;

        for (size_t k = 0; k < sample->n; k++)
            cmp->all[cmp->n++] = (sampled){ sample->v[k], i };
        if (sample->count >= EVENTS_FEWEST)
            cmp->firsts[cmp->n_firsts++] = (sampled){ first_hash(sample), i };
    }
    qsort(cmp->all, cmp->n, sizeof(*cmp->all), sampled_order);
    qsort(cmp->firsts, cmp->n_firsts, sizeof(*cmp->firsts), sampled_order);
    return MRD_OK;
}

/* Returns true if the samples allow that `whole` contains all events of `part`. A hash of `part`
 * that is low enough to be sampled in `whole` must be in the sample of `whole`. */
static bool
has_samples(const comparison *cmp, uint32_t whole, uint32_t part)
{
    const mrd_sample *w = &cmp->files[whole].read->sample, *p = &cmp->files[part].read->sample;
    size_t k = 0;

    for (size_t i = 0; i < p->n && p->v[i] <= hash_limit(w->shift); i++) {
        while (k < w->n && w->v[k] < p->v[i])
            k++;
        if (k == w->n || w->v[k] != p->v[i])
            return false;
    }
    return true;
}

static bool
can_be_part(comparison *cmp, uint32_t whole, uint32_t part)
{
    return is_used(cmp, part) && !cmp->files[part].is_pinned &&
           !mrd_whose_contradict(cmp->files[whole].whose, cmp->files[part].whose);
}

static void
add_part(comparison *cmp, uint32_t part)
{
    cmp->parts[cmp->n_parts] = (mrd_events_part){ .read = cmp->files[part].read };
    cmp->part_files[cmp->n_parts++] = part;
}

/* Two files have equal events: drops the one that states fewer facts. The processes of the compared
 * events decide (`compared`), then all facts in the files and their paths. If this does not decide,
 * drops `b`, which is damaged or comes later. */
static void
drop_equal(comparison *cmp, uint32_t a, uint32_t b, const mrd_events_part *compared)
{
    const mrd_whose *x = cmp->files[a].whose, *y = cmp->files[b].whose;
    bool more = compared->states_more != compared->states_less
                    ? compared->states_more
                    : mrd_whose_states_more(y, x) && !mrd_whose_states_more(x, y);
    bool drop_a = more && !compared->lacks_ends;
    uint32_t kept = drop_a ? b : a, dropped = drop_a ? a : b;

    cmp->files[kept].is_pinned = compared->states_more && compared->states_less;
    cmp->files[dropped].used_for = kept;
    cmp->files[dropped].parts = 1;
    mrd_whose_take(cmp->files[kept].whose, cmp->files[dropped].whose);
}

/* Reads `whole` and the files that try_part collected. Drops each collected file whose events are
 * all in `whole`. Each other file adds to *ret_tries. */
static mrd_err
read_parts(comparison *cmp, uint32_t whole, uint32_t *ret_tries)
{
    mrd_err err = mrd_events_find_parts(cmp->cat, cmp->files[whole].read, cmp->parts, cmp->n_parts,
                                        cmp->by_name);

    cmp->once->compared += cmp->n_parts + 1;
    for (size_t i = 0; i < cmp->n_parts && err == MRD_OK && is_used(cmp, whole); i++) {
        uint32_t part = cmp->part_files[i];

        if (cmp->parts[i].differs || !can_be_part(cmp, whole, part)) {
            *ret_tries += TRIES_MOST / READ_MOST;
        } else if (count_of(cmp, part) == count_of(cmp, whole)) {
            drop_equal(cmp, whole, part, &cmp->parts[i]);
        } else {
            cmp->files[part].used_for = whole;
            cmp->files[part].parts = 1;
        }
    }
    cmp->n_parts = 0;
    return err;
}

/* Collects `part` for read_parts if it may be a copy of events in `whole`. Otherwise only
 * increments *tries. If the list is full, calls read_parts first. */
static mrd_err
try_part(comparison *cmp, uint32_t whole, uint32_t part, uint32_t *tries)
{
    bool by_name = cmp->files[whole].format != cmp->files[part].format;
    mrd_err err = MRD_OK;

    if (!can_be_part(cmp, whole, part) || !has_samples(cmp, whole, part)) {
        ++*tries;
        return MRD_OK;
    }
    if (cmp->n_parts == READ_MOST || (cmp->n_parts > 0 && cmp->by_name != by_name))
        err = read_parts(cmp, whole, tries);
    cmp->by_name = by_name;
    add_part(cmp, part);
    return err;
}

/* Returns true if `part` has fewer events than `whole` and lies within its time. Used for small
 * files, because their samples may have no hash in common with `whole` by chance. */
static bool
is_small_inside(const comparison *cmp, uint32_t whole, uint32_t part)
{
    const mrd_sample *w = &cmp->files[whole].read->sample, *p = &cmp->files[part].read->sample;

    return part > whole && !mrd_ev_before(p->first, w->first) && !mrd_ev_after(p->last, w->last);
}

/* Returns the first index in `firsts` with a hash above the limit of the sample of `whole`. From
 * there on, the samples cannot show whether a file is part of `whole`. */
static size_t
first_small(const comparison *cmp, uint32_t whole)
{
    uint64_t limit = hash_limit(cmp->files[whole].read->sample.shift);

    return limit == UINT64_MAX ? cmp->n_firsts
                               : find_sampled(cmp->firsts, cmp->n_firsts, limit + 1, 0);
}

/* Ends the search for files that are copied in file number `whole`: reads the collected files that
 * were not yet compared. Counts the search as limited if it reached TRIES_MOST. */
static mrd_err
end_search(comparison *cmp, uint32_t whole, uint32_t tries, mrd_err err)
{
    if (err == MRD_OK && cmp->n_parts > 0)
        err = read_parts(cmp, whole, &tries);
    cmp->limited += tries >= TRIES_MOST;
    return err;
}

/* Tries all files whose smallest sampled hash is `hash` as copies of `whole`. With `only_equal`,
 * they must have the same number of events. */
static mrd_err
try_first(comparison *cmp, uint32_t whole, uint64_t hash, bool only_equal, uint32_t *tries)
{
    mrd_err err = MRD_OK;

    for (size_t k = find_sampled(cmp->firsts, cmp->n_firsts, hash, whole + 1);
         k < cmp->n_firsts && cmp->firsts[k].hash == hash && err == MRD_OK && *tries < TRIES_MOST &&
         is_used(cmp, whole) &&
         (!only_equal || count_of(cmp, cmp->firsts[k].file) == count_of(cmp, whole));
         k++)
        err = try_part(cmp, whole, cmp->firsts[k].file, tries);
    return err;
}

/* Drops files with the same events as file i. Only files with the same smallest hash are tried,
 * because this hash is equal in copies. */
static mrd_err
find_equal(comparison *cmp, uint32_t i)
{
    uint32_t tries = 0;
    mrd_err err = try_first(cmp, i, first_hash(&cmp->files[i].read->sample), true, &tries);

    return end_search(cmp, i, tries, err);
}

/* Drops files whose events are all in `whole`. The smallest hash of such a file is in the sample of
 * `whole`, or it is above the sample's limit. */
static mrd_err
find_parts(comparison *cmp, uint32_t whole)
{
    const mrd_sample *sample = &cmp->files[whole].read->sample;
    uint32_t tries = 0;
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < sample->n && err == MRD_OK; i++)
        err = try_first(cmp, whole, sample->v[i], false, &tries);
    for (size_t k = first_small(cmp, whole);
         k < cmp->n_firsts && err == MRD_OK && tries < TRIES_MOST; k++)
        if (is_small_inside(cmp, whole, cmp->firsts[k].file))
            err = try_part(cmp, whole, cmp->firsts[k].file, &tries);
        else
            tries++;
    return end_search(cmp, whole, tries, err);
}

/* ---- Merged files ---- */

static bool
can_be_merged(const comparison *cmp, uint32_t whole, uint32_t part)
{
    return is_used(cmp, part) && count_of(cmp, part) < count_of(cmp, whole) &&
           cmp->files[part].format == cmp->files[whole].format &&
           !mrd_whose_contradict(cmp->files[whole].whose, cmp->files[part].whose);
}

/* Returns true if smaller files have the sampled events of `whole`, too. Only the lower half of the
 * hashes is checked, because a smaller file may be sampled more sparsely and lack the upper
 * half. */
static bool
is_covered(const comparison *cmp, uint32_t whole)
{
    const mrd_sample *sample = &cmp->files[whole].read->sample;
    bool covered = sample->n > 0;

    for (size_t k = 0; k < sample->n && covered && sample->v[k] <= hash_limit(sample->shift + 1);
         k++) {
        size_t at = find_sampled(cmp->all, cmp->n, sample->v[k], whole) + 1,
               most = at + TRIES_EVENT;

        for (covered = false;
             at < cmp->n && at < most && cmp->all[at].hash == sample->v[k] && !covered; at++)
            covered = can_be_merged(cmp, whole, cmp->all[at].file);
    }
    return covered;
}

static void
add_merged(comparison *cmp, uint32_t whole, uint32_t part)
{
    if (!can_be_merged(cmp, whole, part) || cmp->files[part].seen == whole)
        return;
    cmp->files[part].seen = whole;
    if (cmp->n_parts < PARTS_MOST)
        add_part(cmp, part);
    else
        cmp->limited++;
}

/* Drops the file `whole` if several smaller files together have its events, each event exactly
 * once. */
static mrd_err
find_merged(comparison *cmp, uint32_t whole)
{
    const mrd_sample *sample = &cmp->files[whole].read->sample;
    bool is_merged = false;
    mrd_err err = MRD_OK;

    if (sample->count < EVENTS_FEWEST || cmp->files[whole].is_pinned || !is_covered(cmp, whole))
        return MRD_OK;
    for (size_t k = 0; k < sample->n; k++)
        for (size_t i = find_sampled(cmp->all, cmp->n, sample->v[k], whole) + 1;
             i < cmp->n && cmp->all[i].hash == sample->v[k]; i++)
            add_merged(cmp, whole, cmp->all[i].file);
    for (size_t i = first_small(cmp, whole); i < cmp->n_firsts; i++)
        if (is_small_inside(cmp, whole, cmp->firsts[i].file))
            add_merged(cmp, whole, cmp->firsts[i].file);
    if (cmp->n_parts > 1) {
        cmp->once->compared += cmp->n_parts + 1;
        err = mrd_events_are_merged(cmp->cat, cmp->files[whole].read, cmp->parts, cmp->n_parts,
                                    &is_merged);
    }
    for (size_t i = 0; i < cmp->n_parts && is_merged; i++) {
        file *f = &cmp->files[whole];
        uint32_t part = cmp->part_files[i];

        if (!cmp->parts[i].is_used)
            continue;
        if (f->parts++ == 0 || cmp->files[part].read->input < cmp->files[f->used_for].read->input)
            f->used_for = part;
        mrd_whose_take(cmp->files[part].whose, f->whose);
    }
    cmp->n_parts = 0;
    return err;
}

/* Drops copies in three steps: equal files, merged files, and files that are a part of a larger
 * file. Merged files are tested from the smallest to the largest, because a merged file can be a
 * part of another one. */
static mrd_err
find_copies(comparison *cmp)
{
    mrd_err err = MRD_OK;

    for (uint32_t i = 0; i < cmp->n_files && err == MRD_OK; i++)
        if (is_used(cmp, i))
            err = find_equal(cmp, i);
    for (uint32_t i = cmp->n_files; i-- > 0 && err == MRD_OK;)
        if (is_used(cmp, i))
            err = find_merged(cmp, i);
    for (uint32_t i = 0; i < cmp->n_files && err == MRD_OK; i++)
        if (is_used(cmp, i))
            err = find_parts(cmp, i);
    return err;
}

/* ---- The result ---- */

static mrd_str
path_of(const comparison *cmp, uint32_t i)
{
    return mrd_input_path(cmp->cat, cmp->files[i].read->input);
}

/* Removes a copy's events from the store, and stores in the catalog why. A damaged copy stays
 * MRD_INPUT_INCOMPLETE, because nobody knows what its damaged part contained. */
static mrd_err
skip_file(const comparison *cmp, uint32_t i)
{
    const file *f = &cmp->files[i];
    size_t n;
    mrd_input *in = &mrd_catalog_inputs(cmp->cat, &n)[f->read->input];
    const bool damaged = in->state == MRD_INPUT_INCOMPLETE;
    uint32_t used = f->used_for;
    mrd_buf why = { 0 };

    while (!is_used(cmp, used) && cmp->files[used].parts == 1)
        used = cmp->files[used].used_for;
    if (damaged)
        mrd_buf_fmt(&why, MRD_STR_FMT ". ", MRD_STR_ARG(mrd_catalog_text(cmp->cat, in->error)));
    mrd_buf_fmt(&why, "'" MRD_STR_FMT "' has no other events than '" MRD_STR_FMT "'",
                MRD_STR_ARG(path_of(cmp, i)), MRD_STR_ARG(path_of(cmp, used)));
    if (f->parts > 1)
        mrd_buf_fmt(&why, " and %" PRIu32 " other input%s", f->parts - 1, mrd_plural(f->parts - 1));
    mrd_buf_text(&why, ": used once");
    *in = (mrd_input){ .path = in->path,
                       .format = in->format,
                       .error = mrd_catalog_intern(cmp->cat, mrd_buf_cstr(&why)),
                       .state = damaged ? MRD_INPUT_INCOMPLETE : MRD_INPUT_SKIPPED,
                       .bytes = in->bytes };
    mrd_stream_clear(f->read->stream);
    f->read->is_dropped = true;
    mrd_buf_fini(&why);
    return why.err;
}

static mrd_err
skip_copies(const comparison *cmp)
{
    size_t skipped = 0, count;
    uint32_t first = MRD_NO_INPUT; /* the skipped input with the lowest number in the catalog */
    mrd_err err = MRD_OK;

    for (uint32_t i = 0; i < cmp->n_files && err == MRD_OK; i++) {
        if (is_used(cmp, i))
            continue;
        skipped++;
        first = cmp->files[i].read->input < first ? cmp->files[i].read->input : first;
        err = skip_file(cmp, i);
    }
    if (skipped == 0 || err != MRD_OK)
        return err;
    for (mrd_proc_id id = 0; id < mrd_catalog_processes(cmp->cat); id++) {
        mrd_process *process = mrd_catalog_borrow_process(cmp->cat, id);
        uint32_t of =
            process->scope == 0 ? MRD_NO_INPUT : mrd_read_index(cmp->once, process->scope - 1);

        if (of != MRD_NO_INPUT && cmp->once->inputs[of].is_dropped)
            process->profile = MRD_PROFILE_NONE;
    }
    mrd_catalog_note(
        cmp->cat, MRD_STR_FMT "%s",
        MRD_STR_ARG(mrd_catalog_text(cmp->cat, mrd_catalog_inputs(cmp->cat, &count)[first].error)),
        skipped > 1 ? ", and further inputs are copies like it" : "");
    return MRD_OK;
}

/* ---- Events that the used files have in common ---- */

/* Returns true if the user should know about common events of these files: the files state nothing
 * that explains them. Numbers in the paths alone do not count as an explanation. */
static bool
is_remarkable(const comparison *cmp, uint32_t a, uint32_t b)
{
    const mrd_whose *x = cmp->files[a].whose, *y = cmp->files[b].whose;

    return !mrd_whose_contradict(x, y) || mrd_whose_named_apart(x, y);
}

/* Counts the common sampled hashes of pairs of files. If many files share a hash, each is paired
 * only with the four before it. Errors: NOMEM. */
static mrd_err
count_pairs(const comparison *cmp, file_pair **pairs, size_t *ret_n)
{
    enum { NEAREST = 4 };
    /* the latest files in `all` with the current hash, the newest first */
    uint32_t before[NEAREST];
    size_t cap = 0, n_before = 0;
    mrd_map index = { 0 };
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < cmp->n && err == MRD_OK; i++) {
        n_before = i > 0 && cmp->all[i - 1].hash == cmp->all[i].hash ? n_before : 0;
        if (!is_used(cmp, cmp->all[i].file))
            continue;
        for (size_t k = 0; k < n_before && err == MRD_OK; k++) {
            mrd_map_key key = { before[k], cmp->all[i].file, 0 };
            uint32_t pair = mrd_map_get(&index, key);

            if (pair == MRD_MAP_NONE &&
                (*ret_n == PAIRS_MOST || !is_remarkable(cmp, before[k], cmp->all[i].file)))
                continue;
            if (pair == MRD_MAP_NONE) {
                pair = (uint32_t) *ret_n;
                if (!MRD_VEC_ROOM(*pairs, *ret_n, cap, 1) ||
                    mrd_map_put(&index, key, pair) != MRD_OK)
                    err = MRD_NOMEM;
                else
                    (*pairs)[(*ret_n)++] = (file_pair){ .a = before[k], .b = cmp->all[i].file };
            }
            if (err == MRD_OK)
                (*pairs)[pair].common++;
        }
        memmove(before + 1, before, (NEAREST - 1) * sizeof(*before));
        before[0] = cmp->all[i].file;
        n_before += n_before < NEAREST;
    }
    mrd_map_fini(&index);
    return err;
}

/* Returns how many sampled hashes of file i are low enough to be sampled in file `other`, too. */
static uint64_t
comparable(const comparison *cmp, uint32_t i, uint32_t other)
{
    const mrd_sample *sample = &cmp->files[i].read->sample;
    uint64_t limit = hash_limit(cmp->files[other].read->sample.shift), n = 0;

    while (n < sample->n && sample->v[n] <= limit)
        n++;
    return n;
}

/* Adds notes about pairs of used files with common events. */
static mrd_err
note_overlaps(const comparison *cmp)
{
    enum { SHARED, NAMED_APART, KINDS };
    static const char *const results[KINDS] = {
        [SHARED] = "Both have events of their own, so both are used, and equal events count twice",
        [NAMED_APART] = "The names of the two state different processes, so both are used",
    };
    const file_pair *first[KINDS] = { NULL };
    size_t found[KINDS] = { 0 }, n = 0;
    file_pair *pairs = NULL;
    mrd_err err = count_pairs(cmp, &pairs, &n);

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        const file_pair *pair = &pairs[i];
        const mrd_whose *a = cmp->files[pair->a].whose, *b = cmp->files[pair->b].whose;
        int kind = mrd_whose_named_apart(a, b) ? NAMED_APART : SHARED;

        if (pair->common < EVENTS_FEWEST || pair->common * 20 < comparable(cmp, pair->b, pair->a))
            continue;
        first[kind] = found[kind]++ == 0 ? pair : first[kind];
    }
    for (int kind = 0; kind < KINDS; kind++) {
        const file_pair *pair = first[kind];
        uint64_t share;

        if (pair == NULL)
            continue;
        share = pair->common * 100 / comparable(cmp, pair->b, pair->a);
        mrd_catalog_note(cmp->cat,
                         "about %" PRIu64 " %% of the events of '" MRD_STR_FMT
                         "' have the time, length and name of events in '" MRD_STR_FMT
                         "'. %s (%zu pair%s of inputs like this)",
                         share > 100 ? 100 : share, MRD_STR_ARG(path_of(cmp, pair->b)),
                         MRD_STR_ARG(path_of(cmp, pair->a)), results[kind], found[kind],
                         mrd_plural(found[kind]));
    }
    free(pairs);
    return err;
}

static mrd_err
compare_inputs(mrd_read_once *once, mrd_whose *whose, mrd_catalog *cat)
{
    comparison cmp = { .once = once, .cat = cat };
    mrd_err err = collect_files(&cmp, whose);

    if (err == MRD_OK)
        err = find_copies(&cmp);
    if (err == MRD_OK)
        err = note_overlaps(&cmp);
    if (err == MRD_OK)
        err = skip_copies(&cmp);
    if (cmp.limited > 0)
        mrd_catalog_note(cat,
                         "%zu input%s not compared with all other inputs, because too many have "
                         "events in common: a copy among them would count twice",
                         cmp.limited, cmp.limited == 1 ? " was" : "s were");
    free(cmp.files);
    free(cmp.all);
    free(cmp.firsts);
    free(cmp.parts);
    free(cmp.part_files);
    return err;
}

mrd_err
mrd_same_data_resolve(mrd_read_once *once, mrd_catalog *cat, mrd_store *store)
{
    mrd_whose *whose;
    mrd_err err;

    if (once->n_inputs < 2)
        return MRD_OK;
    if ((whose = mrd_whose_new(once, cat)) == NULL)
        return MRD_NOMEM;
    /* this also adds the facts that dropped copies state to the files that replace them */
    err = compare_inputs(once, whose, cat);
    free(whose);
    if (err == MRD_OK && (whose = mrd_whose_new(once, cat)) == NULL)
        return MRD_NOMEM;
    if (err != MRD_OK)
        return err;
    err = mrd_windows_join(once, whose, cat, store);
    if (err == MRD_OK)
        err = mrd_files_rank(once, whose, cat);
    if (err == MRD_OK)
        err = mrd_files_name(cat);
    free(whose);
    return err;
}
