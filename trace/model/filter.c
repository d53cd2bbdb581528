#include "trace/model/filter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/event_type.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

void
mrd_filter_fini(mrd_filter *filter)
{
    mrd_strlist_fini(&filter->instances);
    mrd_strlist_fini(&filter->types);
    mrd_strlist_fini(&filter->cores);
    mrd_strlist_fini(&filter->processes);
}

/* Converts "2026-03-01T12:34:56[.fraction]Z" to ns since 1970. */
static mrd_err
filter_utc(mrd_str text, mrd_ev_ns *ret)
{
    char copy[64];
    struct tm tm = { 0 }, day;
    const char *end;
    int64_t frac = 0;
    time_t t;

    if (text.len >= sizeof(copy) || text.len < 20 || text.p[text.len - 1] != 'Z')
        return MRD_SYNTAX;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    end = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
    if (end == NULL)
        return MRD_SYNTAX;
    if (*end == '.') {
        mrd_str digits = { end + 1, strspn(end + 1, "0123456789") };
        char number[40];

        if (digits.len == 0 || digits.len > 9)
            return MRD_SYNTAX;
        snprintf(number, sizeof(number), "0." MRD_STR_FMT, MRD_STR_ARG(digits));
        if (mrd_num_scaled(mrd_str_of(number), 9, &frac) != MRD_OK)
            return MRD_SYNTAX;
        end += 1 + digits.len;
    }
    if (strcmp(end, "Z") != 0)
        return MRD_SYNTAX;
    /* timegm() would accept 30 February as a day in March, so compare the result */
    day = tm;
    day.tm_hour = day.tm_min = day.tm_sec = 0;
    if (timegm(&day) == -1 || day.tm_mday != tm.tm_mday || day.tm_mon != tm.tm_mon)
        return MRD_SYNTAX;
    t = timegm(&tm);
    if (t > INT64_MAX / MRD_SEC - 1 || t < INT64_MIN / MRD_SEC + 1)
        return MRD_RANGE;
    *ret = (mrd_ev_ns){ (int64_t) t * MRD_SEC + frac };
    return MRD_OK;
}

mrd_err
mrd_filter_time(mrd_str text, mrd_ev_ns first, mrd_ev_ns *ret, mrd_why *why)
{
    int64_t v;

    /* A number of 18 digits or more is in ns since 1970. As seconds, it would exceed the age of the
     * universe. */
    if (text.len >= 18 && mrd_num_i64(text, &v) == MRD_OK) {
        *ret = (mrd_ev_ns){ v };
        return MRD_OK;
    }
    if (filter_utc(text, ret) == MRD_OK)
        return MRD_OK;
    if (mrd_num_dur(text, &v) == MRD_OK && !__builtin_add_overflow(first.ns, v, &ret->ns))
        return MRD_OK;
    return mrd_why_set(why, MRD_SYNTAX, 0,
                       "'" MRD_STR_FMT "' is not a time: write 2.5s (after the beginning), "
                       "2026-03-01T12:00:00Z, or nanoseconds of the epoch",
                       MRD_STR_ARG(text));
}

/* Parses a core or a range of cores, "3" or "0-7". */
static mrd_err
filter_range(const char *word, int64_t *ret_low, int64_t *ret_high)
{
    const char *dash = strchr(word, '-');
    mrd_str low = { word, dash == NULL ? strlen(word) : (size_t) (dash - word) };

    if (mrd_num_i64(low, ret_low) != MRD_OK)
        return MRD_SYNTAX;
    *ret_high = *ret_low;
    if (dash != NULL && mrd_num_i64(mrd_str_of(dash + 1), ret_high) != MRD_OK)
        return MRD_SYNTAX;
    return *ret_low >= 0 && *ret_low <= *ret_high ? MRD_OK : MRD_SYNTAX;
}

mrd_err
mrd_filter_check(const mrd_filter *filter, mrd_why *why)
{
    int64_t low, high;

    for (size_t i = 0; i < filter->cores.n; i++) {
        if (filter_range(filter->cores.v[i], &low, &high) != MRD_OK)
            return mrd_why_set(why, MRD_INVALID, 0, "'%s' is not a core: write 3 or 0-7",
                               filter->cores.v[i]);
    }
    for (size_t i = 0; i < filter->processes.n; i++) {
        if (mrd_num_i64(mrd_str_of(filter->processes.v[i]), &low) != MRD_OK)
            return mrd_why_set(why, MRD_INVALID, 0, "'%s' is not a process id",
                               filter->processes.v[i]);
    }
    return MRD_OK;
}

static const char *const *
words_of(const mrd_strlist *list)
{
    return (const char *const *) list->v;
}

mrd_err
mrd_filter_check_types(const mrd_strlist *types, const mrd_catalog *cat, mrd_why *why)
{
    const mrd_strtab *strings = cat == NULL ? NULL : mrd_catalog_strings(cat);
    size_t count = strings == NULL ? 0 : mrd_strtab_count(strings), n = 0;
    const char **names;
    mrd_err err;

    if (types->n == 0)
        return MRD_OK;
    if ((names = calloc(count + 1, sizeof(*names))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "event types");
    for (size_t i = 0; i < count; i++) {
        mrd_str name = mrd_strtab_get(strings, (mrd_sid) i);

        if (name.len > 0 && name.len <= 64)
            names[n++] = name.p;
    }
    err = mrd_types_check(words_of(types), types->n, names, n, why);
    free(names);
    return err;
}

static bool
has_core_in(const mrd_catalog *cat, int64_t low, int64_t high)
{
    bool any = false, calls = false;

    for (size_t i = 0; i < mrd_catalog_tracks(cat); i++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, (mrd_track_id) i);
        int64_t core = track->lnc_idx;

        if (core != MRD_NONE && core >= low && core <= high)
            return true;
        any = any || core != MRD_NONE;
        calls = calls || track->source == MRD_SRC_API;
    }
    return calls && !any;
}

mrd_err
mrd_filter_check_present(const mrd_filter *filter, const mrd_catalog *cat, mrd_why *why)
{
    for (size_t i = 0; i < filter->processes.n; i++) {
        int64_t pid = MRD_NONE;
        bool found = false;

        (void) mrd_num_i64(mrd_str_of(filter->processes.v[i]), &pid);
        for (size_t p = 0; p < mrd_catalog_processes(cat) && !found; p++)
            found = mrd_catalog_borrow_process(cat, (mrd_proc_id) p)->process_id == pid;
        if (!found)
            return mrd_why_set(why, MRD_NOTFOUND, 0, "no process %s is in this profile",
                               filter->processes.v[i]);
    }
    for (size_t i = 0; i < filter->cores.n; i++) {
        int64_t low = 0, high = INT64_MAX;

        (void) filter_range(filter->cores.v[i], &low, &high);
        if (!has_core_in(cat, low, high))
            return mrd_why_set(why, MRD_NOTFOUND, 0, "no core %s is in this profile",
                               filter->cores.v[i]);
    }
    return MRD_OK;
}

bool
mrd_filter_is_all(const mrd_filter *filter)
{
    return filter->start.ns == INT64_MIN && filter->end.ns == INT64_MAX &&
           filter->instances.n == 0 && filter->types.n == 0 && filter->cores.n == 0 &&
           filter->processes.n == 0;
}

/* Cached decisions for a track or a name. WANTED_BY_CORE: only runtime calls for a wanted core
 * pass, according to their argument lnc_idx. */
enum { UNKNOWN, WANTED, UNWANTED, WANTED_BY_CORE };

typedef struct {
    mrd_source source;
    mrd_source *inner;
    const mrd_filter *f;
    const mrd_catalog *cat;
    uint8_t *tracks, *names;
    size_t n_tracks, n_names;
    uint64_t *passed, *held;
} filter_source;

static bool
filter_has_core(const mrd_filter *filter, int64_t core)
{
    for (size_t i = 0; i < filter->cores.n; i++) {
        int64_t low, high;

        if (core != MRD_NONE && filter_range(filter->cores.v[i], &low, &high) == MRD_OK &&
            core >= low && core <= high)
            return true;
    }
    return false;
}

static uint8_t
filter_wants_track(const filter_source *source, mrd_track_id id)
{
    const mrd_track *track = mrd_catalog_borrow_track(source->cat, id);
    const mrd_process *process = mrd_catalog_borrow_process(source->cat, track->process);
    bool ok =
        source->f->instances.n == 0 ||
        mrd_strlist_has(&source->f->instances, mrd_catalog_text(source->cat, process->instance_id));

    if (ok && source->f->processes.n > 0) {
        ok = false;
        for (size_t i = 0; i < source->f->processes.n && !ok; i++) {
            int64_t pid;

            ok = mrd_num_i64(mrd_str_of(source->f->processes.v[i]), &pid) == MRD_OK &&
                 pid == process->process_id;
        }
    }
    if (!ok || source->f->cores.n == 0)
        return ok ? WANTED : UNWANTED;
    return filter_has_core(source->f, track->lnc_idx)                   ? WANTED
           : track->lnc_idx == MRD_NONE && track->source == MRD_SRC_API ? WANTED_BY_CORE
                                                                        : UNWANTED;
}

/* Returns the cache element `at`. The cache grows, because a live merge adds tracks and names to
 * the catalog. Returns NULL if out of memory. */
static uint8_t *
filter_memo(uint8_t **memo, size_t *n, size_t at)
{
    return MRD_VEC_REACH(*memo, *n, at) ? *memo + at : NULL;
}

/* Returns true if the event passes the filter. Counters and losses pass any filter by event type,
 * because they have none. */
static bool
filter_wants(filter_source *source, const mrd_event *ev)
{
    uint8_t *track, *name;
    mrd_ev_ns end = mrd_event_end(ev);

    if (!mrd_ev_before(ev->ts, source->f->end) || mrd_ev_before(end, source->f->start) ||
        (end.ns == source->f->start.ns && mrd_ev_after(end, ev->ts)))
        return false;
    if ((track = filter_memo(&source->tracks, &source->n_tracks, ev->track)) == NULL)
        return true; /* out of memory, so let everything pass */
    if (*track == UNKNOWN)
        *track = filter_wants_track(source, ev->track);
    if (*track == UNWANTED || (*track == WANTED_BY_CORE &&
                               !filter_has_core(source->f, mrd_catalog_call_core(source->cat, ev))))
        return false;
    if (source->f->types.n == 0 || ev->kind == MRD_COUNTER || ev->kind == MRD_LOSS)
        return true;
    if ((name = filter_memo(&source->names, &source->n_names, ev->name)) == NULL)
        return true;
    if (*name == UNKNOWN)
        *name = mrd_types_want(words_of(&source->f->types), source->f->types.n,
                               mrd_catalog_text(source->cat, ev->name))
                    ? WANTED
                    : UNWANTED;
    return *name == WANTED;
}

static mrd_step
filter_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    filter_source *source = (filter_source *) self;
    mrd_step step;

    while ((step = source->inner->next(source->inner, ret_event, why)) == MRD_MORE) {
        bool wanted = filter_wants(source, *ret_event);

        if (wanted && source->passed != NULL)
            ++*source->passed;
        if (!wanted && source->held != NULL)
            ++*source->held;
        if (wanted)
            return MRD_MORE;
    }
    return step;
}

static void
filter_close(mrd_source *self)
{
    filter_source *source = (filter_source *) self;

    source->inner->close(source->inner);
    free(source->tracks);
    free(source->names);
    free(source);
}

mrd_err
mrd_filter_open(mrd_source *inner, const mrd_filter *filter, const mrd_catalog *cat,
                uint64_t *ret_passed, uint64_t *ret_held, mrd_source **ret_source, mrd_why *why)
{
    filter_source *source = calloc(1, sizeof(*source));

    if (source == NULL) {
        inner->close(inner);
        return mrd_why_set(why, MRD_NOMEM, 0, "filter");
    }
    source->source = (mrd_source){ .next = filter_next, .close = filter_close, .key = inner->key };
    source->inner = inner;
    source->f = filter;
    source->cat = cat;
    source->passed = ret_passed;
    source->held = ret_held;
    *ret_source = &source->source;
    return MRD_OK;
}
