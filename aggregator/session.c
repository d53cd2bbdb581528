#include "aggregator/hub.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/out.h"

#define MANIFEST_VERSION 1
#define COVER_SLACK      (100 * MRD_MS)
#define RESUME_MAX       (300 * MRD_SEC) /* a start older than this is not taken up again */

/* ---- Selection ---- */

static const struct {
    const char *key;
    size_t offset;
} select_lists[] = {
    { "instance_id", offsetof(hub_select, instances) },
    { "job", offsetof(hub_select, jobs) },
    { "rank", offsetof(hub_select, ranks) },
    { "process_id", offsetof(hub_select, processes) },
    { "core", offsetof(hub_select, cores) },
    { "event_type", offsetof(hub_select, types) },
    { "source", offsetof(hub_select, sources) },
};

static mrd_strlist *
select_list(const hub_select *s, size_t i)
{
    return (mrd_strlist *) ((uintptr_t) s + select_lists[i].offset);
}

void
select_fini(hub_select *s)
{
    for (size_t i = 0; i < MRD_COUNT(select_lists); i++)
        mrd_strlist_fini(select_list(s, i));
}

mrd_err
counters_from_json(mrd_strlist *list, const mrd_json *a, mrd_why *why)
{
    if (!mrd_json_is_array(a) || mrd_json_size(a) > HUB_COUNTERS)
        return mrd_why_set(why, MRD_TYPE, 0, "counters must be a list of at most %d names",
                           HUB_COUNTERS);
    for (size_t k = 0; k < mrd_json_size(a); k++) {
        char scratch[64];
        mrd_str text;

        if (mrd_json_text(mrd_json_at(a, k), scratch, &text) != MRD_OK || text.len == 0 ||
            text.len > 191)
            return mrd_why_set(why, MRD_TYPE, 0, "counters must be a list of names or patterns");
        if (mrd_strlist_add(list, text) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "counters");
    }
    return MRD_OK;
}

/* Only the node itself can judge jobs, ranks and processes; here the instance decides. */
bool
select_matches(const hub_select *s, const hub_node *n)
{
    return s->instances.n == 0 || mrd_strlist_has(&s->instances, mrd_str_of(n->instance_id));
}

static mrd_json *
strings_json(const mrd_strlist *list)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < list->n; i++)
        mrd_json_append(a, mrd_json_new_str(list->v[i]));
    return a;
}

static mrd_json *
select_json(const hub_select *s)
{
    mrd_json *o = mrd_json_new_object();

    for (size_t i = 0; i < MRD_COUNT(select_lists); i++) {
        if (select_list(s, i)->n > 0)
            mrd_json_set(o, select_lists[i].key, strings_json(select_list(s, i)));
    }
    return o;
}

mrd_err
select_from_json(hub_select *s, const mrd_json *o, mrd_why *why)
{
    for (size_t i = 0; i < MRD_COUNT(select_lists); i++) {
        const mrd_json *a = mrd_json_get(o, select_lists[i].key);

        if (a != NULL && !mrd_json_is_array(a))
            return mrd_why_set(why, MRD_TYPE, 0, "select.%s must be a list", select_lists[i].key);
        for (size_t k = 0; a != NULL && k < mrd_json_size(a); k++) {
            char scratch[64];
            mrd_str text;

            if (k >= 4096 || mrd_json_text(mrd_json_at(a, k), scratch, &text) != MRD_OK ||
                text.len > 255)
                return mrd_why_set(why, MRD_TYPE, 0, "select.%s must be a list of short words",
                                   select_lists[i].key);
            if (mrd_strlist_add(select_list(s, i), text) != MRD_OK)
                return mrd_why_set(why, MRD_NOMEM, 0, "selection");
        }
    }
    return MRD_OK;
}

/* ---- The manifest ---- */

static void
put_time(mrd_json *o, const char *key, int64_t ns)
{
    char text[MRD_TIME_TEXT];

    if (ns == 0)
        return;
    mrd_json_set(o, key, mrd_json_new_str(mrd_wall_text((mrd_wall_ns){ ns }, text)));
}

/* A time for people and, beside it, the exact number. */
static void
put_instant(mrd_json *o, const char *key, int64_t ns)
{
    char number[64];

    if (ns == 0)
        return;
    put_time(o, key, ns);
    snprintf(number, sizeof(number), "%s_ns", key);
    mrd_json_set(o, number, mrd_json_new_int(ns));
}

/* A count as JSON holds it: 63 bits. A node may say any 64-bit number. */
static int64_t
json_count(uint64_t n)
{
    return n > INT64_MAX ? INT64_MAX : (int64_t) n;
}

static mrd_json *
counters_json(const hub_counters *c)
{
    mrd_json *o = mrd_json_new_object(), *drops = mrd_json_new_array();

    mrd_json_set(o, "begun", mrd_json_new_int(json_count(c->begun)));
    mrd_json_set(o, "delivered", mrd_json_new_int(json_count(c->delivered)));
    mrd_json_set(o, "held", mrd_json_new_int(json_count(c->held)));
    mrd_json_set(o, "dropped", mrd_json_new_int(json_count(hub_dropped(c))));
    mrd_json_set(o, "unwanted", mrd_json_new_int(json_count(hub_unwanted(c))));
    for (unsigned i = 0; i < c->n_drops; i++) {
        mrd_json *d = mrd_json_new_object();

        mrd_json_set(d, "cause", mrd_json_new_str(c->drops[i].cause));
        mrd_json_set(d, "count", mrd_json_new_int(json_count(c->drops[i].count)));
        mrd_json_set(d, "first_local_ns", mrd_json_new_int(c->drops[i].first_ns));
        mrd_json_set(d, "last_local_ns", mrd_json_new_int(c->drops[i].last_ns));
        mrd_json_append(drops, d);
    }
    mrd_json_set(o, "drops", drops);
    mrd_json_set(o, "clock_frames_lost", mrd_json_new_int(json_count(c->clock_lost)));
    return o;
}

static mrd_json *
epochs_json(const hub_part *p, uint64_t *ret_missing)
{
    mrd_json *a = mrd_json_new_array();

    *ret_missing = 0;
    for (unsigned i = 0; i < p->n_epochs; i++) {
        const part_epoch *e = &p->epochs[i];
        uint64_t end = mrd_seqset_end(e->stored), missing;
        mrd_json *o = mrd_json_new_object();
        char hex[24];

        end = e->end > end ? e->end : end;
        missing = mrd_seqset_missing(e->stored, end);
        *ret_missing += missing;
        snprintf(hex, sizeof(hex), "%016llx", (unsigned long long) e->epoch);
        mrd_json_set(o, "epoch", mrd_json_new_str(hex));
        mrd_json_set(o, "end", mrd_json_new_int(json_count(end)));
        mrd_json_set(o, "missing", mrd_json_new_int(json_count(missing)));
        mrd_json_append(a, o);
    }
    return a;
}

/* Losses of events that a session wanted, and not of a thread's own annotations: while they last a
 * node's record has holes. */
static bool
makes_holes(const hub_drop *d)
{
    static const char *const others[] = { "not-recorded", "recorder-window", "ring-full",
                                          "ring-record-too-big", "ring-other" };

    for (size_t i = 0; i < MRD_COUNT(others); i++)
        if (strcmp(d->cause, others[i]) == 0)
            return false;
    return d->count > 0 && d->last_ns > d->first_ns;
}

static int
by_first(const void *a, const void *b)
{
    const hub_drop *const *x = a, *const *y = b;

    return ((*x)->first_ns > (*y)->first_ns) - ((*x)->first_ns < (*y)->first_ns);
}

/* Time between the first and the last loss of each cause, counted once. */
static int64_t
holes_ns(const hub_part *p)
{
    const hub_drop *drops[HUB_DROPS_MAX];
    int64_t sum = 0, end = p->started_local_ns;
    size_t n = 0;

    for (unsigned i = 0; i < p->counters.n_drops; i++)
        if (makes_holes(&p->counters.drops[i]))
            drops[n++] = &p->counters.drops[i];
    qsort(drops, n, sizeof(*drops), by_first);
    for (size_t i = 0; i < n; i++) {
        int64_t from = drops[i]->first_ns > end ? drops[i]->first_ns : end;
        int64_t to = drops[i]->last_ns, dur;

        if (p->stopped_local_ns != 0 && to > p->stopped_local_ns)
            to = p->stopped_local_ns;
        if (to <= from)
            continue;
        if (!__builtin_sub_overflow(to, from, &dur) && !__builtin_add_overflow(sum, dur, &sum))
            end = to;
    }
    return sum;
}

/* How much of the window from start to stop (or now) the node recorded: less for who joined late,
 * refused or was lost. Beginnings that differ by less than COVER_SLACK are the same. */
static void
put_coverage(const hub *h, const hub_session *s, const hub_part *p, mrd_json *o)
{
    int64_t now = hub_session_now(h), from, to, holes;
    int64_t end = s->stop_ns != 0 && s->stop_ns < now ? s->stop_ns : now;

    if (s->go_ns == 0 || end <= s->go_ns)
        return;
    from = part_began(p) == 0 ? end : part_began(p);
    from = from < s->go_ns + COVER_SLACK ? s->go_ns : from;
    to = p->state == PART_LOST && p->lost_wall_ns != 0 && p->lost_wall_ns < end ? p->lost_wall_ns
                                                                                : end;
    if (to < from)
        to = from = end;
    holes = holes_ns(p);
    holes = holes > to - from ? to - from : holes;
    if (holes > 0)
        mrd_json_set(o, "not_recorded_ns", mrd_json_new_int(holes));
    put_instant(o, "covered_from", from);
    put_instant(o, "covered_to", to);
    mrd_json_set(o, "covered_ns", mrd_json_new_int(to - from - holes));
    mrd_json_set(o, "window_ns", mrd_json_new_int(end - s->go_ns));
}

static mrd_json *
part_json(const hub *h, const hub_session *s, const hub_part *p)
{
    mrd_json *o = mrd_json_new_object();
    uint64_t missing = 0;
    char since[24];

    mrd_json_set(o, "instance_id", mrd_json_new_str(p->instance_id));
    mrd_json_set(o, "host_name", mrd_json_new_str(p->host_name));
    mrd_json_set(o, "boot_id", mrd_json_new_str(p->boot_id));
    mrd_json_set(o, "state", mrd_json_new_str(part_state_text(p->state)));
    if (p->sentence[0] != '\0')
        mrd_json_set(o, "sentence", mrd_json_new_str(p->sentence));
    if (p->err != MRD_OK)
        mrd_json_set(o, "err", mrd_json_new_int((int64_t) p->err));
    mrd_json_set(o, "simulated", mrd_json_new_bool(p->simulated));
    mrd_json_set(o, "started_local_ns", mrd_json_new_int(p->started_local_ns));
    mrd_json_set(o, "start_bound_ns", mrd_json_new_int(p->start_bound_ns));
    mrd_json_set(o, "stopped_local_ns", mrd_json_new_int(p->stopped_local_ns));
    mrd_json_set(o, "complete_local_ns", mrd_json_new_int(p->complete_local_ns));
    put_instant(o, "lost", p->lost_wall_ns);
    put_coverage(h, s, p, o);
    mrd_json_set(o, "local_ns", mrd_json_new_int(p->local_ns));
    mrd_json_set(o, "wall_ns", mrd_json_new_int(p->wall_ns));
    mrd_json_set(o, "events", mrd_json_new_int(json_count(p->events)));
    mrd_json_set(o, "batches", mrd_json_new_int(json_count(p->batches)));
    mrd_json_set(o, "bytes", mrd_json_new_int(json_count(p->bytes)));
    if (p->first_ns <= p->last_ns) {
        mrd_json_set(o, "first_local_ns", mrd_json_new_int(p->first_ns));
        mrd_json_set(o, "last_local_ns", mrd_json_new_int(p->last_ns));
    }
    mrd_json_set(o, "epochs", epochs_json(p, &missing));
    mrd_json_set(o, "missing_batches", mrd_json_new_int(json_count(missing)));
    mrd_json_set(o, "damaged_events", mrd_json_new_int(json_count(p->damage.events)));
    mrd_json_set(o, "damaged_frames", mrd_json_new_int(json_count(p->damage.frames)));
    mrd_json_set(o, "foreign_batches", mrd_json_new_int(json_count(p->damage.foreign)));
    mrd_json_set(o, "counters", counters_json(&p->counters));
    if (p->before.begun > 0)
        mrd_json_set(o, "counters_of_last_run", counters_json(&p->last));
    if (p->since != 0) {
        snprintf(since, sizeof(since), "%016llx", (unsigned long long) p->since);
        mrd_json_set(o, "counters_since", mrd_json_new_str(since));
    }
    if (p->tally.known)
        mrd_json_set(o, "tally", part_tally_json(p));
    mrd_json_set(o, "clock", part_clock_json(p));
    if (p->device_profiles != NULL)
        mrd_json_set(o, "device_profiles", mrd_json_copy(p->device_profiles));
    return o;
}

/* Who took part when it came and does not know of it. */
static void
put_unheard(const hub_session *s, size_t trigger, mrd_json *o)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->n_parts; i++) {
        if (part_missed(s, s->parts[i], trigger))
            mrd_json_append(a, mrd_json_new_str(s->parts[i]->instance_id));
    }
    if (mrd_json_size(a) > 0)
        mrd_json_set(o, "unheard", a);
    else
        mrd_json_free(a);
}

static mrd_json *
triggers_json(const hub_session *s)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->n_triggers; i++) {
        const hub_trigger *t = &s->triggers[i];
        mrd_json *o = mrd_json_new_object();
        char hex[24];

        snprintf(hex, sizeof(hex), "%016llx", (unsigned long long) t->id);
        mrd_json_set(o, "id", mrd_json_new_str(hex));
        put_instant(o, "from", t->from_ns);
        put_instant(o, "to", t->to_ns);
        mrd_json_set(o, "reason", mrd_json_new_str(t->reason));
        mrd_json_set(o, "answered", mrd_json_new_int(t->answered));
        put_unheard(s, i, o);
        mrd_json_append(a, o);
    }
    return a;
}

mrd_json *
artifact_json(const hub_artifact *f)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "sha256", mrd_json_new_str(f->sha256));
    mrd_json_set(o, "size", mrd_json_new_int(json_count(f->size)));
    mrd_json_set(o, "name", mrd_json_new_str(f->name));
    mrd_json_set(o, "kind", mrd_json_new_str(f->kind));
    mrd_json_set(o, "instance_id", mrd_json_new_str(f->instance_id));
    mrd_json_set(o, "process_id", mrd_json_new_int(f->process_id));
    mrd_json_set(o, "nc_idx", mrd_json_new_int(f->nc_idx));
    mrd_json_set(o, "complete", mrd_json_new_bool(f->complete));
    return o;
}

static mrd_json *
artifacts_json(const hub_session *s)
{
    mrd_json *a = mrd_json_new_array();

    for (size_t i = 0; i < s->n_artifacts; i++)
        mrd_json_append(a, artifact_json(&s->artifacts[i]));
    return a;
}

static mrd_json *
job_json(const hub_session *s)
{
    static const char *const names[] = { "waiting", "running", "done", "failed", "cancelled" };
    mrd_json *o = mrd_json_new_object();
    job_status st;

    if (!merger_status(s, &st)) {
        mrd_json_set(o, "state", mrd_json_new_str("none"));
        return o;
    }
    mrd_json_set(o, "state", mrd_json_new_str(names[st.state]));
    mrd_json_set(o, "events", mrd_json_new_int(json_count(st.events)));
    mrd_json_set(o, "total", mrd_json_new_int(json_count(st.total)));
    if (st.state == JOB_FAILED)
        mrd_json_set(o, "sentence", mrd_json_new_str(st.why.text));
    return o;
}

mrd_json *
session_json(const hub *h, const hub_session *s)
{
    mrd_json *o = mrd_json_new_object(), *nodes = mrd_json_new_array();
    char empty[MRD_WHY_MAX];
    uint64_t events = 0, bytes = 0, begun = 0, dropped = 0, held = 0, damaged = 0;

    for (size_t i = 0; i < s->n_parts; i++) {
        const hub_part *p = s->parts[i];

        mrd_json_append(nodes, part_json(h, s, p));
        events += p->events;
        bytes += p->bytes;
        begun += p->counters.begun;
        held += p->counters.held;
        dropped += hub_dropped(&p->counters);
        damaged += p->damage.events;
    }
    mrd_json_set(o, "version", mrd_json_new_int(MANIFEST_VERSION));
    mrd_json_set(o, "id", mrd_json_new_str(s->text));
    mrd_json_set(o, "name", mrd_json_new_str(s->name));
    mrd_json_set(o, "mode", mrd_json_new_str(s->recorder ? "recorder" : "stream"));
    mrd_json_set(o, "state", mrd_json_new_str(session_state_text(s->state)));
    if (s->sentence[0] != '\0')
        mrd_json_set(o, "sentence", mrd_json_new_str(s->sentence));
    if (session_empty(s, empty))
        mrd_json_set(o, "empty", mrd_json_new_str(empty));
    mrd_json_set(o, "require", mrd_json_new_str(s->require));
    mrd_json_set(o, "select", select_json(&s->select));
    mrd_json_set(o, "timeline", mrd_json_new_str(s->timeline));
    put_instant(o, "created", s->created_wall_ns);
    put_instant(o, "go", s->go_ns);
    put_instant(o, "stop", s->stop_ns);
    put_instant(o, "store_full", s->full_ns);
    put_instant(o, "store_room", s->room_ns);
    if (h->disk_full && hub_session_open(s))
        mrd_json_set(o, "store_sentence", mrd_json_new_str(h->disk_sentence));
    mrd_json_set(o, "duration_ns", mrd_json_new_int(s->duration_ns));
    mrd_json_set(o, "recorder_ns", mrd_json_new_int(s->recorder_ns));
    mrd_json_set(o, "recorder_bytes", mrd_json_new_int(json_count(s->recorder_bytes)));
    if (s->device_profiles[0] != '\0')
        mrd_json_set(o, "device_profiles", mrd_json_new_str(s->device_profiles));
    if (s->counters.n > 0) {
        mrd_json_set(o, "counters", strings_json(&s->counters));
        mrd_json_set(o, "counter_period_ns",
                     mrd_json_new_int(strtoll(s->counter_period, NULL, 10)));
    }
    mrd_json_set(o, "auto_merge", mrd_json_new_bool(s->auto_merge));
    mrd_json_set(o, "stop_wanted", mrd_json_new_bool(s->stop_wanted));
    mrd_json_set(o, "events", mrd_json_new_int(json_count(events)));
    mrd_json_set(o, "bytes", mrd_json_new_int(json_count(bytes)));
    mrd_json_set(o, "store_bytes", mrd_json_new_int(json_count(keep_bytes(s))));
    mrd_json_set(o, "artifact_bytes", mrd_json_new_int(json_count(s->artifact_bytes)));
    mrd_json_set(o, "begun", mrd_json_new_int(json_count(begun)));
    mrd_json_set(o, "dropped", mrd_json_new_int(json_count(dropped)));
    mrd_json_set(o, "held", mrd_json_new_int(json_count(held)));
    mrd_json_set(o, "damaged_events", mrd_json_new_int(json_count(damaged)));
    mrd_json_set(o, "nodes", nodes);
    mrd_json_set(o, "clocks", session_clocks_json(s));
    mrd_json_set(o, "triggers", triggers_json(s));
    mrd_json_set(o, "artifacts", artifacts_json(s));
    mrd_json_set(o, "profile", job_json(s));
    return o;
}

static const char *
node_state(const hub *h, const hub_node *n)
{
    if (!hub_node_alive(h, n))
        return hub_node_expected(h, n) ? "missing" : "gone";
    return n->state[0] == '\0' ? "connected" : n->state;
}

mrd_json *
node_json(const hub *h, const hub_node *n)
{
    mrd_json *o = mrd_json_new_object();

    mrd_json_set(o, "instance_id", mrd_json_new_str(n->instance_id));
    mrd_json_set(o, "host_name", mrd_json_new_str(n->host_name));
    mrd_json_set(o, "boot_id", mrd_json_new_str(n->boot_id));
    mrd_json_set(o, "release", mrd_json_new_str(n->release));
    mrd_json_set(o, "connected", mrd_json_new_bool(hub_node_alive(h, n)));
    mrd_json_set(o, "state", mrd_json_new_str(node_state(h, n)));
    mrd_json_set(o, "heard", mrd_json_new_bool(n->heard));
    mrd_json_set(o, "simulated", mrd_json_new_bool(n->simulated));
    put_instant(o, "seen", n->seen_wall_ns);
    mrd_json_set(o, "rings", mrd_json_new_int(n->rings));
    mrd_json_set(o, "processes", mrd_json_new_int(n->processes));
    mrd_json_set(o, "spool_bytes", mrd_json_new_int(json_count(n->spool_bytes)));
    mrd_json_set(o, "memory_bytes", mrd_json_new_int(json_count(n->memory_bytes)));
    mrd_json_set(o, "frames", mrd_json_new_int(json_count(n->frames)));
    mrd_json_set(o, "bytes", mrd_json_new_int(json_count(n->bytes)));
    mrd_json_set(o, "events", mrd_json_new_int(json_count(n->events)));
    mrd_json_set(o, "counters", counters_json(&n->counters));
    mrd_json_set(o, "counted_local_ns", mrd_json_new_int(n->counted_ns));
    mrd_json_set(o, "slowed", mrd_json_new_int(json_count(n->slowed)));
    if (hub_node_limited(n) != LIMIT_NONE)
        mrd_json_set(o, "limited_by", mrd_json_new_str(limit_text(hub_node_limited(n))));
    mrd_json_set(o, "clock", clock_json(&n->clock));
    mrd_json_set(o, "labels", strings_json(&n->labels));
    return o;
}

/* The manifest as text and where it goes; *ret_path NULL: there is no such session any more. */
static mrd_err
manifest_take(hub *h, uint64_t id, mrd_buf *text, char **ret_path)
{
    mrd_json *o = NULL;
    hub_session *s;
    mrd_err err = MRD_OK;

    *ret_path = NULL;
    pthread_mutex_lock(&h->lock);
    if ((s = hub_session_by_id(h, id)) != NULL) {
        o = session_json(h, s);
        *ret_path = hub_path(h, s, "session.json");
        s->dirty = false;
        err = o == NULL || *ret_path == NULL ? MRD_NOMEM : MRD_OK;
    }
    pthread_mutex_unlock(&h->lock);
    if (o != NULL) {
        mrd_json_write(o, true, text);
        mrd_buf_byte(text, '\n');
        err = err == MRD_OK ? text->err : err;
    }
    mrd_json_free(o);
    return err;
}

mrd_err
session_save(hub *h, uint64_t id, mrd_why *why)
{
    mrd_buf text = { 0 };
    char *path;
    mrd_err err;

    pthread_mutex_lock(&h->save_lock);
    if ((err = manifest_take(h, id, &text, &path)) != MRD_OK)
        mrd_why_set(why, err, 0, "manifest");
    else if (path != NULL && h->sync == MRD_SYNC_GROUP)
        err = mrd_write_file_durable(path, (mrd_bytes){ text.p, text.len }, 0644, why);
    else if (path != NULL)
        err = mrd_write_file(path, (mrd_bytes){ text.p, text.len }, 0644, why);
    if (err != MRD_OK) {
        hub_session *s;

        pthread_mutex_lock(&h->lock);
        if ((s = hub_session_by_id(h, id)) != NULL)
            s->dirty = true;
        pthread_mutex_unlock(&h->lock);
    }
    pthread_mutex_unlock(&h->save_lock);
    mrd_buf_fini(&text);
    free(path);
    return err;
}

/* ---- Life ---- */

static mrd_err
sessions_put(hub *h, hub_session *s)
{
    hub_session **v = realloc(h->sessions, (h->n_sessions + 1) * sizeof(*v));

    if (v == NULL)
        return MRD_NOMEM;
    h->sessions = v;
    h->sessions[h->n_sessions++] = s;
    return MRD_OK;
}

static mrd_err
session_limits(hub *h, mrd_why *why)
{
    int64_t open = 0;

    for (size_t i = 0; i < h->n_sessions; i++)
        open += hub_session_open(h->sessions[i]);
    if (open >= h->limits.max_open_sessions) {
        h->stats.limited[LIMIT_OPEN_SESSIONS]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "%lld sessions are open, which is the limit (--max-open-sessions): stop one",
            (long long) open);
    }
    if ((int64_t) h->n_sessions >= h->limits.max_sessions) {
        h->stats.limited[LIMIT_SESSIONS]++;
        return mrd_why_set(
            why, MRD_LIMIT, 0,
            "the store holds %zu sessions, which is the limit (--max-sessions): delete some",
            h->n_sessions);
    }
    if (h->disk_full)
        return mrd_why_set(why, MRD_FULL, 0, "%s", h->disk_sentence);
    return MRD_OK;
}

/* Lock held. It waits for its manifest before anything happens to it. */
static mrd_err
session_new(hub *h, const session_wish *wish, hub_session **ret_session, mrd_why *why)
{
    hub_session *s;
    uint16_t random;
    mrd_err err = session_limits(h, why);

    if (err != MRD_OK)
        return err;
    if ((s = calloc(1, sizeof(*s))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    s->fresh = true;
    s->created_wall_ns = mrd_wall_now().ns;
    hub_copy(s->timeline, sizeof(s->timeline), h->timeline);
    do {
        mrd_random(&random, sizeof(random));
        s->id = mrd_session_id_new(s->created_wall_ns, random);
    } while (hub_session_by_id(h, s->id) != NULL);
    mrd_session_id_text(s->id, s->text);
    hub_copy(s->name, sizeof(s->name), wish->name);
    hub_copy(s->require, sizeof(s->require), wish->require == NULL ? "any" : wish->require);
    s->recorder = wish->recorder;
    s->duration_ns = wish->duration_ns;
    s->recorder_ns = wish->recorder_ns;
    s->recorder_bytes = wish->recorder_bytes;
    hub_copy(s->device_profiles, sizeof(s->device_profiles),
             wish->device_profiles == NULL ? "" : wish->device_profiles);
    s->auto_merge = wish->auto_merge;
    if (sessions_put(h, s) != MRD_OK) {
        free(s);
        return mrd_why_set(why, MRD_NOMEM, 0, "session");
    }
    s->select = wish->select; /* owned from here on */
    s->counters = wish->counters;
    snprintf(s->counter_period, sizeof(s->counter_period), "%lld",
             (long long) (wish->counter_period_ns == 0 ? MRD_SEC : wish->counter_period_ns));
    *ret_session = s;
    return MRD_OK;
}

void
session_wish_fini(session_wish *w)
{
    select_fini(&w->select);
    mrd_strlist_fini(&w->counters);
}

mrd_err
session_create(hub *h, const session_wish *wish, uint64_t *ret_id, mrd_why *why)
{
    hub_session *s = NULL;
    mrd_err err;

    pthread_mutex_lock(&h->lock);
    err = session_new(h, wish, &s, why);
    if (err == MRD_OK)
        *ret_id = s->id;
    pthread_mutex_unlock(&h->lock);
    if (err != MRD_OK)
        return err;
    err = session_save(h, *ret_id, why);
    pthread_mutex_lock(&h->lock);
    if ((s = hub_session_by_id(h, *ret_id)) != NULL && err == MRD_OK) {
        s->fresh = false;
    } else if (s != NULL) {
        s->state = SESSION_FAILED;
        keep_retire(h, s);             /* with what there is of its folder */
        s->select = (hub_select){ 0 }; /* stays the caller's */
        s->counters = (mrd_strlist){ 0 };
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return err;
}

void
session_free(hub_session *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_parts; i++) {
        mrd_journal_close(s->parts[i]->journal, NULL);
        for (unsigned k = 0; k < s->parts[i]->n_epochs; k++)
            mrd_seqset_free(s->parts[i]->epochs[k].stored);
        mrd_json_free(s->parts[i]->device_profiles);
        free(s->parts[i]);
    }
    free(s->parts);
    mrd_map_fini(&s->part_by_id);
    free(s->triggers);
    free(s->artifacts);
    select_fini(&s->select);
    mrd_strlist_fini(&s->counters);
    merger_drop(s);
    free(s);
}

/* ---- Recovery ---- */

static void
counters_load(hub_counters *c, const mrd_json *o)
{
    const mrd_json *drops = mrd_json_get(o, "drops");

    c->begun = (uint64_t) mrd_json_int(o, "begun", 0);
    c->delivered = (uint64_t) mrd_json_int(o, "delivered", 0);
    c->held = (uint64_t) mrd_json_int(o, "held", 0);
    c->clock_lost = (uint64_t) mrd_json_int(o, "clock_frames_lost", 0);
    for (size_t i = 0; drops != NULL && i < mrd_json_size(drops) && i < HUB_DROPS_MAX; i++) {
        const mrd_json *d = mrd_json_at(drops, i);
        hub_drop *to = &c->drops[c->n_drops++];

        hub_copy(to->cause, sizeof(to->cause), mrd_json_str(d, "cause", "other"));
        to->count = (uint64_t) mrd_json_int(d, "count", 0);
        to->first_ns = mrd_json_int(d, "first_local_ns", 0);
        to->last_ns = mrd_json_int(d, "last_local_ns", 0);
    }
}

static unsigned
word_index(const char *word, const char *(*text)(unsigned), unsigned n, unsigned def)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(word, text(i)) == 0)
            return i;
    }
    return def;
}

static const char *
part_word(unsigned i)
{
    return part_state_text((part_state) i);
}

static const char *
session_word(unsigned i)
{
    return session_state_text((session_state) i);
}

/* The manifest counted more than is there: that was stored, and is gone. */
static void
part_recover_gone(hub_session *s, hub_part *p, const mrd_json *o)
{
    int64_t events = mrd_json_int(o, "events", 0);
    hub_damage d = p->damage;

    if (events <= 0 || (uint64_t) events <= p->events)
        return;
    d.events = (uint64_t) events - p->events;
    p->events = (uint64_t) events;
    part_damaged(s, p, &d, false);
}

/* What the journal holds of this node: numbers stored, counts, range. o: what the manifest says. */
static mrd_err
part_recover(hub *h, hub_session *s, hub_part *p, const mrd_json *o, mrd_why *why)
{
    char *dir = hub_path(h, s, "journal/%s", p->instance_id);
    mrd_journal_index x;
    mrd_err err = dir == NULL ? MRD_NOMEM : mrd_journal_scan(dir, &x, why);

    free(dir);
    if (err != MRD_OK)
        return err;
    for (size_t i = 0; i < x.n && err == MRD_OK; i++)
        err = part_stored(p, &x.entries[i].frame);
    p->bytes = x.bytes;
    if (x.bad_bytes > 0)
        mrd_log(MRD_LOG_WARN, "AGG-JOURNAL-DAMAGE",
                "Damaged bytes passed over: session=%s node=%s bytes=%llu files=%llu", s->text,
                p->instance_id, (unsigned long long) x.bad_bytes, (unsigned long long) x.bad_files);
    if (err == MRD_OK)
        part_recover_gone(s, p, o);
    mrd_journal_index_fini(&x);
    return err;
}

/* before = counters - last */
static void
part_counters_load(hub_part *p, const mrd_json *o)
{
    const mrd_json *last = mrd_json_get(o, "counters_of_last_run");
    char hex[24];

    snprintf(hex, sizeof(hex), "0x%.16s", mrd_json_str(o, "counters_since", "0"));
    (void) mrd_num_u64(mrd_str_of(hex), &p->since);
    counters_load(&p->counters, mrd_json_get(o, "counters"));
    counters_load(&p->last, last != NULL ? last : mrd_json_get(o, "counters"));
    if (last == NULL)
        return;
    p->before = p->counters;
    p->before.begun -= p->last.begun;
    p->before.delivered -= p->last.delivered;
    p->before.held -= p->last.held;
    p->before.clock_lost -= p->last.clock_lost;
    for (unsigned i = 0; i < p->before.n_drops; i++) {
        for (unsigned k = 0; k < p->last.n_drops; k++) {
            if (strcmp(p->before.drops[i].cause, p->last.drops[k].cause) == 0)
                p->before.drops[i].count -= p->last.drops[k].count;
        }
    }
}

static mrd_err
part_load(hub *h, hub_session *s, const mrd_json *o, mrd_why *why)
{
    hub_node stand_in = { 0 };
    hub_part *p;
    const mrd_json *clock = mrd_json_get(o, "clock");

    hub_copy(stand_in.instance_id, sizeof(stand_in.instance_id),
             mrd_json_str(o, "instance_id", ""));
    if (!mrd_instance_id_valid(mrd_str_of(stand_in.instance_id)))
        return mrd_why_set(why, MRD_CORRUPT, 0, "session %s names a node '%s'", s->text,
                           stand_in.instance_id);
    if (hub_part_of(s, stand_in.instance_id) != NULL)
        return mrd_why_set(why, MRD_CORRUPT, 0, "session %s names node '%s' twice", s->text,
                           stand_in.instance_id);
    hub_copy(stand_in.host_name, sizeof(stand_in.host_name), mrd_json_str(o, "host_name", ""));
    hub_copy(stand_in.boot_id, sizeof(stand_in.boot_id), mrd_json_str(o, "boot_id", ""));
    stand_in.hello_local_ns = hub_time(mrd_json_int(o, "local_ns", 0));
    stand_in.hello_wall_ns = hub_time(mrd_json_int(o, "wall_ns", 0));
    stand_in.simulated = mrd_json_bool(o, "simulated", false);
    if ((p = hub_part_add(s, &stand_in)) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "session %s", s->text);
    p->state = (part_state) word_index(mrd_json_str(o, "state", "lost"), part_word, PART_STATES,
                                       PART_LOST);
    hub_copy(p->sentence, sizeof(p->sentence), mrd_json_str(o, "sentence", ""));
    p->err = (mrd_err) mrd_json_int(o, "err", MRD_OK);
    p->started_local_ns = hub_time(mrd_json_int(o, "started_local_ns", 0));
    p->stopped_local_ns = hub_time(mrd_json_int(o, "stopped_local_ns", 0));
    p->complete_local_ns = hub_time(mrd_json_int(o, "complete_local_ns", 0));
    p->start_bound_ns = mrd_json_int(o, "start_bound_ns", -1);
    p->lost_wall_ns = hub_time(mrd_json_int(o, "lost_ns", 0));
    part_counters_load(p, o);
    part_tally_load(p, mrd_json_get(o, "tally"));
    if (mrd_json_is_array(mrd_json_get(o, "device_profiles")))
        p->device_profiles = mrd_json_copy(mrd_json_get(o, "device_profiles"));
    hub_copy(p->clock.state, sizeof(p->clock.state), mrd_json_str(clock, "state", ""));
    part_clock_recover(p, clock);
    p->damage = (hub_damage){ .events = (uint64_t) mrd_json_int(o, "damaged_events", 0),
                              .frames = (uint64_t) mrd_json_int(o, "damaged_frames", 0),
                              .foreign = (uint64_t) mrd_json_int(o, "foreign_batches", 0) };
    return part_recover(h, s, p, o, why);
}

/* Adds one, or completes it where it is listed already. `seen` leads from what it is to its place.
 */
static mrd_err
artifact_load(hub *h, hub_session *s, const mrd_json *o, mrd_map *seen)
{
    hub_artifact a = { .size = (uint64_t) mrd_json_int(o, "size", 0),
                       .process_id = mrd_json_int(o, "process_id", -1),
                       .nc_idx = mrd_json_int(o, "nc_idx", -1),
                       .complete = mrd_json_bool(o, "complete", false) };
    hub_artifact *v;
    mrd_map_key key, file;
    uint32_t at;

    hub_copy(a.sha256, sizeof(a.sha256), mrd_json_str(o, "sha256", ""));
    hub_copy(a.name, sizeof(a.name), mrd_json_str(o, "name", ""));
    hub_copy(a.kind, sizeof(a.kind), mrd_json_str(o, "kind", ""));
    hub_copy(a.instance_id, sizeof(a.instance_id), mrd_json_str(o, "instance_id", ""));
    a.noted = a.complete;
    if (!keep_hash_ok(a.sha256) || !artifact_name_ok(a.name) ||
        !mrd_instance_id_valid(mrd_str_of(a.instance_id)))
        return MRD_CORRUPT;
    key = (mrd_map_key){ mrd_hash64(a.sha256, strlen(a.sha256), (uint64_t) a.process_id),
                         mrd_hash64(a.name, strlen(a.name), 1),
                         mrd_hash64(a.instance_id, strlen(a.instance_id), 2) };
    file = (mrd_map_key){ .a = key.a };
    if ((at = mrd_map_get(seen, key)) != MRD_MAP_NONE) {
        s->artifacts[at].complete = s->artifacts[at].complete || a.complete;
        s->artifacts[at].noted = s->artifacts[at].noted || a.noted;
        return MRD_OK;
    }
    if (s->n_artifacts >= HUB_ARTIFACTS)
        return MRD_LIMIT;
    if ((v = hub_grow(s->artifacts, s->n_artifacts, sizeof(*v))) == NULL)
        return MRD_NOMEM;
    s->artifacts = v;
    if (keep_list(h, a.sha256) != MRD_OK)
        return MRD_NOMEM;
    s->artifacts[s->n_artifacts] = a;
    if (mrd_map_get(seen, file) == MRD_MAP_NONE)
        s->artifact_bytes += a.size;
    (void) mrd_map_put(seen, file, 0);
    return mrd_map_put(seen, key, (uint32_t) s->n_artifacts++);
}

/* What is there of it counts. */
static void
artifact_look(hub *h, const hub_artifact *a)
{
    char *part = a->complete ? NULL : hub_path(h, NULL, "artifacts/%s.part", a->sha256);
    struct stat st;

    if (a->complete)
        keep_grown(h, a->sha256, a->size);
    else if (part != NULL && stat(part, &st) == 0)
        keep_grown(h, a->sha256, (uint64_t) st.st_size);
    free(part);
}

/* What the manifest lists, then what was noted after it was written. The last line may be torn. */
static void
artifacts_load(hub *h, hub_session *s, const mrd_json *list)
{
    char *path = hub_path(h, s, "artifacts.log"), *line = NULL;
    FILE *f = path == NULL ? NULL : fopen(path, "re");
    mrd_map seen = { 0 };
    size_t cap = 0;
    ssize_t len;

    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++)
        (void) artifact_load(h, s, mrd_json_at(list, i), &seen);
    while (f != NULL && (len = getline(&line, &cap, f)) > 0) {
        mrd_json *o = NULL;

        if (mrd_json_parse((mrd_str){ line, (size_t) len }, "artifact", &o, NULL) == MRD_OK)
            (void) artifact_load(h, s, o, &seen);
        mrd_json_free(o);
    }
    if (f != NULL)
        fclose(f);
    for (size_t i = 0; i < s->n_artifacts; i++)
        artifact_look(h, &s->artifacts[i]);
    mrd_map_fini(&seen);
    free(line);
    free(path);
}

/* A start that was accepted is carried out, once the agents had time to connect again; unless it
 * was so long ago that nobody waits for it. */
static void
resume_arming(hub *h, hub_session *s)
{
    if (mrd_wall_now().ns - s->created_wall_ns < RESUME_MAX) {
        s->arm_from_ns = mrd_local_now().ns + 2 * h->limits.node_timeout_ns;
        return;
    }
    s->state = SESSION_FAILED;
    hub_copy(s->sentence, sizeof(s->sentence),
             "the aggregator stopped before the session had begun: start it again");
}

/* Those that no agent has heard of are told again: an agent knows a trigger by its id. */
static void
triggers_load(hub_session *s, const mrd_json *list)
{
    size_t n = list == NULL ? 0 : mrd_json_size(list);

    if (n == 0 || n > HUB_TRIGGERS || (s->triggers = calloc(n, sizeof(*s->triggers))) == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        const mrd_json *o = mrd_json_at(list, i);
        hub_trigger *t = &s->triggers[s->n_triggers++];
        char hex[24];

        snprintf(hex, sizeof(hex), "0x%.16s", mrd_json_str(o, "id", "0"));
        (void) mrd_num_u64(mrd_str_of(hex), &t->id);
        t->from_ns = hub_time(mrd_json_int(o, "from_ns", 0));
        t->to_ns = hub_time(mrd_json_int(o, "to_ns", 0));
        t->answered = (unsigned) mrd_json_int(o, "answered", 0);
        t->sent = t->answered > 0;
        hub_copy(t->reason, sizeof(t->reason), mrd_json_str(o, "reason", ""));
    }
}

/* Who is not named knew of it, or came later. */
static void
heard_load(hub_session *s, const mrd_json *list)
{
    for (size_t i = 0; i < s->n_triggers; i++) {
        const mrd_json *unheard = mrd_json_get(mrd_json_at(list, i), "unheard");
        unsigned answered = s->triggers[i].answered;

        for (size_t k = 0; k < s->n_parts; k++) {
            hub_part *p = s->parts[k];
            bool stays = !part_missed(s, p, i);

            for (size_t u = 0; u < mrd_json_size(unheard) && !stays; u++) {
                char scratch[64];
                mrd_str name;

                stays = mrd_json_text(mrd_json_at(unheard, u), scratch, &name) == MRD_OK &&
                        mrd_str_is(name, p->instance_id);
            }
            if (!stays)
                part_heard(s, p, i);
        }
        s->triggers[i].answered = answered;
    }
}

static mrd_err
session_load(hub *h, const mrd_json *o, hub_session *s, mrd_why *why)
{
    const mrd_json *nodes = mrd_json_get(o, "nodes");
    mrd_err err = MRD_OK;

    if (mrd_json_int(o, "version", 0) != MANIFEST_VERSION)
        return mrd_why_set(why, MRD_VERSION, 0, "session %s has manifest version %lld", s->text,
                           (long long) mrd_json_int(o, "version", 0));
    hub_copy(s->name, sizeof(s->name), mrd_json_str(o, "name", ""));
    hub_copy(s->require, sizeof(s->require), mrd_json_str(o, "require", "any"));
    hub_copy(s->sentence, sizeof(s->sentence), mrd_json_str(o, "sentence", ""));
    s->recorder = strcmp(mrd_json_str(o, "mode", "stream"), "recorder") == 0;
    s->state = (session_state) word_index(mrd_json_str(o, "state", "failed"), session_word,
                                          SESSION_STATES, SESSION_FAILED);
    s->created_wall_ns = hub_time(mrd_json_int(o, "created_ns", 0));
    hub_copy(s->timeline, sizeof(s->timeline), mrd_json_str(o, "timeline", ""));
    session_clocks_recover(s, mrd_json_get(o, "clocks"));
    s->go_ns = hub_time(mrd_json_int(o, "go_ns", 0));
    s->stop_ns = hub_time(mrd_json_int(o, "stop_ns", 0));
    s->full_ns = hub_time(mrd_json_int(o, "store_full_ns", 0));
    s->room_ns = hub_time(mrd_json_int(o, "store_room_ns", 0));
    s->duration_ns = hub_time(mrd_json_int(o, "duration_ns", 0));
    hub_copy(s->device_profiles, sizeof(s->device_profiles),
             mrd_json_str(o, "device_profiles", ""));
    if (mrd_json_get(o, "counters") != NULL)
        (void) counters_from_json(&s->counters, mrd_json_get(o, "counters"), NULL);
    snprintf(s->counter_period, sizeof(s->counter_period), "%lld",
             (long long) mrd_json_int(o, "counter_period_ns", MRD_SEC));
    s->recorder_ns = hub_time(mrd_json_int(o, "recorder_ns", 0));
    s->recorder_bytes = (uint64_t) mrd_json_int(o, "recorder_bytes", 0);
    s->auto_merge = mrd_json_bool(o, "auto_merge", true);
    s->stop_wanted = mrd_json_bool(o, "stop_wanted", false);
    s->closed = s->state >= SESSION_MERGING;
    if (s->state == SESSION_ARMING)
        resume_arming(h, s);
    triggers_load(s, mrd_json_get(o, "triggers"));
    s->flush_deadline_ns = mrd_local_now().ns + h->limits.flush_timeout_ns;
    artifacts_load(h, s, mrd_json_get(o, "artifacts"));
    if (mrd_json_get(o, "select") != NULL)
        err = select_from_json(&s->select, mrd_json_get(o, "select"), why);
    for (size_t i = 0; err == MRD_OK && nodes != NULL && i < mrd_json_size(nodes); i++)
        err = part_load(h, s, mrd_json_at(nodes, i), why);
    heard_load(s, mrd_json_get(o, "triggers"));
    return err;
}

static mrd_err
recover_one(hub *h, uint64_t id, mrd_why *why)
{
    hub_session *s = calloc(1, sizeof(*s));
    mrd_json *o = NULL;
    char *path = NULL;
    mrd_err err = MRD_NOMEM;

    if (s == NULL)
        return MRD_NOMEM;
    s->id = id;
    mrd_session_id_text(id, s->text);
    if ((path = hub_path(h, s, "session.json")) != NULL)
        err = mrd_json_load_up_to(path, MRD_JSON_MANIFEST, &o, why);
    if (err == MRD_OK)
        err = session_load(h, o, s, why);
    if (err == MRD_OK)
        err = sessions_put(h, s);
    if (err != MRD_OK) {
        h->unreadable += path == NULL || access(path, F_OK) == 0; /* it may list artifacts */
        keep_forget(h, s);
        session_free(s);
    }
    mrd_json_free(o);
    free(path);
    return err;
}

mrd_err
session_recover(hub *h, mrd_why *why)
{
    char *root = hub_path(h, NULL, "sessions");
    DIR *dir = root == NULL ? NULL : opendir(root);
    struct dirent *entry;
    mrd_err err = MRD_OK;

    if (dir == NULL)
        err = mrd_why_set(why, MRD_IO, errno, "cannot list %s", root == NULL ? "the store" : root);
    while (err == MRD_OK && (entry = readdir(dir)) != NULL) {
        uint64_t id;
        mrd_why one = { 0 };

        if (mrd_session_id_parse(mrd_str_of(entry->d_name), &id) != MRD_OK)
            continue;
        if (recover_one(h, id, &one) != MRD_OK) /* the others are fine */
            mrd_log(MRD_LOG_ERROR, "AGG-SESSION-UNREADABLE", "Session left alone: id=%s reason=%s",
                    entry->d_name, one.text);
    }
    if (dir != NULL)
        closedir(dir);
    free(root);
    return err;
}
