/*
 * The aggregator's directory on a simulated disk, with the real code: store, journals with their
 * thread, manifests with theirs, the cleaner, and recovery (aggregator/store/store.h, journals.h,
 * pool.h, cleaner.h). Each disk call takes time, and may fail or be the last one.
 */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "aggregator/store/cleaner.h"
#include "aggregator/store/journals.h"
#include "base/conf/log.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "base/sys/pool.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"
#include "tests/sim/disk.h"
#include "tests/sim/threads.h"
#include "trace/json/json_read.h"

#define STORE   "/sim/server/store"
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define BOOT_AT "/sim/server/boot_id"

/* A frame that the aggregator acknowledged as stored, so it must never be lost. */
typedef struct {
    uint64_t session, seq, epoch;
    uint32_t node;
} promise;

struct store_model {
    world *w;
    sim_disk *disk;
    mrd_session_store store;
    bool open;
    mrd_journals *journals;
    mrd_pool *manifests;
    mrd_cleaner *cleaner;
    unsigned dies_in; /* number of disk calls until the aggregator dies; 0 for never */
    bool dies_by_power, quiet;
    unsigned error_in; /* one of `error_in` disk calls fails */
    promise *promises;
    size_t n_promises, cap_promises;
    size_t checked; /* number of promises that were checked since the last power failure */
};

/* ---- Faults of the disk ---- */

static void
fail_now(world *w, uint64_t incarnation, uint64_t power, void *p)
{
    (void) p;
    if (incarnation == w->incarnation)
        server_crash(w, power != 0);
}

static void
die(store_model *m, const sim_disk_op *op, sim_disk_verdict *v)
{
    world *w = m->w;

    v->dies = v->limited = true;
    v->at_most = (size_t) sim_below(w, op->len + 1);
    m->dies_in = 0;
    w->up = false;
    w->r->died_in[op->call]++;
    sim_at(w, w->now, fail_now, w->incarnation, m->dies_by_power, NULL);
}

static int64_t
latency(world *w, sim_disk_call call)
{
    bool sync = call == SIM_DISK_SYNC || call == SIM_DISK_SYNC_FOLDER || call == SIM_DISK_SYNC_ALL;
    int64_t ns = sync ? 300 * MRD_US + (int64_t) sim_below(w, 3 * MRD_MS)
                      : (int64_t) sim_below(w, 50 * MRD_US);

    if (sync && w->plan->faults && !w->healing && sim_chance(w, 10))
        ns += (int64_t) sim_below(w, 2 * MRD_SEC);
    return ns;
}

static const char *const call_names[SIM_DISK_CALLS] = { "create", "write",       "size",
                                                        "sync",   "sync folder", "sync all",
                                                        "rename", "remove",      "mkdir",
                                                        "link",   "list" };

/* Returns how many calls there are per failure. A sync of everything during the aggregator's start
 * is rare, so it fails more often. The next start then finds the lost data in the cache. */
static uint64_t
fails_in(const store_model *m, const sim_disk_op *op)
{
    bool starts = m->journals == NULL && m->w->loop == NULL;

    return starts && op->call == SIM_DISK_SYNC_ALL ? 4 : m->error_in;
}

static void
before(void *self, const sim_disk_op *op, sim_disk_verdict *v)
{
    store_model *m = self;
    world *w = m->w;

    if (m->quiet || op->call == SIM_DISK_LIST)
        return;
    w->r->disk_calls++;
    if (w->plan->verbose)
        printf("%10.6f disk: %s %s, %zu\n", (double) w->now / 1e9, call_names[op->call], op->path,
               op->len);
    if (m->dies_in > 0 && --m->dies_in == 0) {
        die(m, op, v);
        return;
    }
    if (w->plan->faults && !w->healing && sim_below(w, fails_in(m, op)) == 0) {
        w->r->disk_errors++;
        if (w->plan->verbose)
            printf("%10.6f disk: it fails\n", (double) w->now / 1e9);
        v->err = sim_chance(w, 500) ? EIO : ENOSPC;
        v->limited = op->call == SIM_DISK_WRITE && sim_chance(w, 500);
        v->at_most = (size_t) sim_below(w, op->len + 1);
    }
    sim_thread_pause(latency(w, op->call));
}

void
store_die_soon(world *w, bool power)
{
    w->store->dies_in = 1 + (unsigned) sim_below(w, 25);
    w->store->dies_by_power = power;
}

void
store_full(world *w, bool full)
{
    sim_disk *d = w->store->disk;

    sim_disk_set_quota(d, full ? sim_disk_used(d) + sim_below(w, 8192) + 1 : 0);
}

/* ---- Reports of other threads, as in the loop's inbox ---- */

typedef enum { STORED, CLOSED, SAVED, NODES_SAVED, MEASURED, REMOVED, DISK, GONE } news_kind;

typedef struct {
    news_kind kind;
    uint64_t a, b;
    bool failed;
    mrd_why why;
} news;

static void take_news(world *w, uint64_t incarnation, uint64_t b, void *p);

static void
post(void *self, news_kind kind, uint64_t a, uint64_t b, const mrd_why *failed)
{
    world *w = ((store_model *) self)->w;
    news *n = calloc(1, sizeof(*n));

    *n = (news){ .kind = kind, .a = a, .b = b, .failed = failed != NULL };
    if (failed != NULL)
        n->why = *failed;
    sim_at(w, w->now, take_news, w->incarnation, 0, n);
}

static void
on_stored(void *self, uint64_t ticket, const mrd_why *failed)
{
    post(self, STORED, ticket, 0, failed);
}

static void
on_closed(void *self, uint64_t session)
{
    post(self, CLOSED, session, 0, NULL);
}

static void
on_measured(void *self, uint64_t session, uint64_t bytes)
{
    post(self, MEASURED, session, bytes, NULL);
}

static void
on_removed(void *self, uint64_t session, const mrd_why *failed)
{
    post(self, REMOVED, session, 0, failed);
}

static void
on_disk(void *self, int64_t free_bytes)
{
    post(self, DISK, (uint64_t) free_bytes, 0, NULL);
}

static void
on_gone(void *self, const mrd_why *why)
{
    post(self, GONE, 0, 0, why);
}

/* Reads a manifest from the medium with the JSON reader of traces, which is independent and ten
 * times faster. Returns false if there is no valid one. */
static bool
read_manifest(mrd_bytes text, disk_session *d)
{
    uint64_t nodes = 0;
    mrd_json_reader *r = NULL;
    mrd_in *in = NULL;
    mrd_str key, value;
    mrd_jr_type t = MRD_JR_ERROR;
    bool fine;

    MRD_ASSERT(mrd_in_memory(text, "session.json", &in, NULL) == MRD_OK &&
               mrd_json_reader_open(in, &r, NULL) == MRD_OK);
    if (mrd_json_next(r, NULL, NULL) == MRD_JR_OBJECT)
        mrd_json_enter(r);
    while (mrd_json_depth(r) > 0 && (t = mrd_json_next(r, &key, &value)) > MRD_JR_END) {
        bool number = t == MRD_JR_NUMBER && !mrd_str_is(value, "0");

        d->durable_go = d->durable_go || (number && mrd_str_is(key, "go_ns"));
        d->durable_stop = d->durable_stop || (number && mrd_str_is(key, "stop_ns"));
        if (t == MRD_JR_ARRAY && mrd_str_is(key, "nodes")) {
            mrd_json_enter(r);
            while ((t = mrd_json_next(r, NULL, NULL)) > MRD_JR_END)
                nodes++;
        }
        if (t == MRD_JR_ERROR)
            break;
    }
    fine = t == MRD_JR_END && mrd_json_next(r, NULL, NULL) == MRD_JR_END &&
           mrd_json_reader_lenient(r) == 0 && mrd_json_reader_replaced(r) == 0;
    d->durable_nodes = fine ? (size_t) nodes : d->durable_nodes;
    mrd_json_reader_close(r);
    mrd_in_close(in);
    return fine;
}

/* The next message to nodes contains what the medium has, or what could not be written. In that
 * case it is sent nevertheless and logged (docs/explanation/architecture.md). */
void
store_saved(world *w, uint64_t id, bool failed)
{
    disk_session *d = disk_make(w, id);
    mrd_session *s = mrd_core_session(w->core, id);
    mrd_buf text = { 0 };
    sim_disk *copy;
    char path[200];

    if (s == NULL)
        return;
    if (failed) {
        d->durable_go = d->durable_go || s->go.ns != 0;
        d->durable_stop = d->durable_stop || s->stop.ns != 0;
        return;
    }
    snprintf(path, sizeof(path), "store/sessions/%s", s->text);
    copy = sim_disk_durable_copy(w->store->disk, path, "session.json", "medium");
    if ((mrd_file_read("/sim/medium/session.json", MRD_JSON_MANIFEST, &text, NULL) != MRD_OK ||
         !read_manifest((mrd_bytes){ text.p, text.len }, d)) &&
        !s->deleted)
        sim_fail(w, "session %s was reported as saved and is not on the medium", s->text);
    mrd_buf_fini(&text);
    sim_disk_free(copy);
}

static void
take_news(world *w, uint64_t incarnation, uint64_t b, void *p)
{
    news n = *(news *) p;
    const mrd_why *failed = n.failed ? &n.why : NULL;
    mrd_core_time now = server_now(w);

    (void) b;
    free(p);
    if (incarnation != w->incarnation || !w->up)
        return;
    switch (n.kind) {
    case STORED:
        w->r->stored += failed == NULL;
        w->r->not_stored += failed != NULL;
        mrd_core_stored(w->core, now, n.a, failed);
        break;
    case CLOSED:
        disk_make(w, n.a)->closed = true;
        mrd_core_closed(w->core, now, n.a);
        break;
    case SAVED:
        store_saved(w, n.a, n.failed);
        mrd_core_saved(w->core, now, n.a, n.b, failed);
        break;
    case NODES_SAVED:
        mrd_core_nodes_saved(w->core, now, failed);
        break;
    case MEASURED:
        mrd_core_measured(w->core, now, n.a, n.b);
        break;
    case REMOVED:
        mrd_core_removed(w->core, now, n.a, failed);
        break;
    case DISK:
        mrd_core_disk(w->core, now, (int64_t) n.a);
        break;
    case GONE:
        mrd_core_store_gone(w->core, now, failed);
        break;
    }
    server_carry(w);
}

static uint8_t
body_byte(const mrd_frame *f, size_t at)
{
    return (uint8_t) (f->seq * 31 + f->session + at);
}

/* Returns true if a stored frame is the one that the node sent. The bytes of clock data are not
 * compared, because the aggregator adds fields to it. */
static bool
is_as_sent(const world *w, unsigned node, const mrd_frame *f, mrd_bytes body)
{
    stored_frame key = { .session = f->session, .seq = f->seq, .epoch = f->epoch };
    const mrd_buf *sent = w->plan->real ? wire_bytes(w, node, &key) : NULL;

    if (w->plan->real)
        return sent != NULL && (f->type == MRD_FRAME_CLOCK_DATA ||
                                (sent->len == MRD_FRAME_HEADER + body.len &&
                                 memcmp(sent->p + MRD_FRAME_HEADER, body.p, body.len) == 0));
    for (size_t i = 0; i < body.len; i++) {
        if (body.p[i] != body_byte(f, i))
            return false;
    }
    return true;
}

/* ---- Effects, as in loop_effects.c and loop_results.c ---- */

/* Makes a crash more likely at a critical moment: when the first frames of a node that joined late
 * arrive, and the manifest does not have this node yet. */
void
store_bad_moment(world *w, const mrd_session *s)
{
    const disk_session *d = disk_make(w, s->id);

    if (w->plan->faults && !w->healing && d->durable_go && s->n_parts > d->durable_nodes &&
        sim_chance(w, 200))
        sim_at(w, w->now + 5 * MRD_MS + (int64_t) sim_below(w, 40 * MRD_MS), fail_now,
               w->incarnation, sim_below(w, 2), NULL);
}

void
store_append(world *w, const mrd_effect *e)
{
    store_model *m = w->store;
    mrd_journals_frame f = { .ticket = e->ticket,
                             .session = e->session->id,
                             .journal = e->part->number,
                             .instance_id = e->part->instance_id,
                             .frame = e->frame };
    size_t len = MRD_FRAME_HEADER + (size_t) e->frame.body_len;
    uint8_t *data = malloc(len);

    store_bad_moment(w, e->session);
    for (size_t i = 0; i < e->frame.body_len; i++)
        data[MRD_FRAME_HEADER + i] = body_byte(&e->frame, i);
    f.frame.cols_raw = e->frame.type == MRD_FRAME_BATCH ? e->frame.body_len : 0;
    f.frame.last = f.frame.first = (mrd_ev_ns){ w->now };
    mrd_frame_put(&f.frame, (mrd_bytes){ data + MRD_FRAME_HEADER, e->frame.body_len }, data);
    f.data = (mrd_bytes){ data, len };
    f.owned = data;
    if (!e->part->in_journal)
        f.dir =
            mrd_session_store_path(&m->store, e->session->text, "journal/%s", e->part->instance_id);
    if (mrd_journals_append(m->journals, &f) != MRD_OK)
        abort();
}

typedef struct {
    mrd_session_view *v;
    uint64_t version;
} manifest_job;

static void
save(void *self, void *arg)
{
    store_model *m = self;
    manifest_job *j = arg;
    mrd_why why = { 0 };
    mrd_err err = mrd_session_store_save(&m->store, j->v, &why);

    post(m, SAVED, j->v->s->id, j->version, err == MRD_OK ? NULL : &why);
    mrd_session_view_unref(j->v);
    free(j);
}

void
store_save(world *w, const mrd_effect *e)
{
    manifest_job *j = calloc(1, sizeof(*j));

    *j = (manifest_job){ mrd_session_view_new(w->core, e->session), e->version };
    disk_make(w, e->session->id);
    w->r->saves++;
    MRD_ASSERT(j->v != NULL && mrd_pool_put(w->store->manifests, save, w->store, j));
}

typedef struct {
    mrd_buf text;
    bool durable;
} nodes_job;

static void
save_nodes(void *self, void *arg)
{
    store_model *m = self;
    nodes_job *j = arg;
    mrd_why why = { 0 };
    mrd_err err = mrd_session_store_save_nodes(&m->store, &j->text, j->durable, &why);

    post(m, NODES_SAVED, 0, 0, err == MRD_OK ? NULL : &why);
    mrd_buf_fini(&j->text);
    free(j);
}

void
store_save_nodes(world *w, const mrd_effect *e)
{
    nodes_job *j = calloc(1, sizeof(*j));

    mrd_core_registry_text(w->core, &j->text);
    j->durable = e->final;
    MRD_ASSERT(mrd_pool_put(w->store->manifests, save_nodes, w->store, j));
}

void
store_close_session(world *w, const mrd_session *s)
{
    mrd_journals_close_session(w->store->journals, s->id);
}

void
store_measure(world *w, const mrd_session *s)
{
    mrd_cleaner_measure(w->store->cleaner, s->id, s->text);
}

void
store_remove(world *w, const mrd_session *s)
{
    /* from here on the session may be missing after a crash */
    disk_make(w, s->id)->removed = true;
    mrd_cleaner_remove(w->store->cleaner, s->id, s->text);
}

void
store_look(world *w)
{
    mrd_cleaner_look(w->store->cleaner);
}

/* ---- Promises: frames that the aggregator acknowledged as stored ---- */

/* Returns true if the durable part of one journal segment contains the promised frame. Reads a copy
 * of the segment with the aggregator's own reader. */
static bool
segment_has(const world *w, const char *path, const char *name, const promise *p)
{
    sim_disk *copy = sim_disk_durable_copy(w->store->disk, path, name, "medium");
    mrd_journal_index x;
    bool found = false;

    if (mrd_journal_scan("/sim/medium", &x, NULL) == MRD_OK) {
        for (size_t i = 0; i < x.n && !found; i++)
            found = x.entries[i].frame.epoch == p->epoch && x.entries[i].frame.seq == p->seq;
        mrd_journal_index_fini(&x);
    }
    sim_disk_free(copy);
    return found;
}

/* Returns true if the promised frame is on the disk's medium, so that a power failure now would not
 * lose it. A frame that was just acknowledged is in one of the last segments, so these are searched
 * first. */
static bool
is_durable(const world *w, const mrd_session *s, const promise *p)
{
    const char *name = NULL;
    char path[200];

    snprintf(path, sizeof(path), "store/sessions/%s/journal/i-%u", s->text, p->node);
    while ((name = sim_disk_durable_name(w->store->disk, path, name)) != NULL) {
        if (segment_has(w, path, name, p))
            return true;
    }
    return false;
}

void
store_promised(world *w, const ticket_model *t, bool again)
{
    store_model *m = w->store;
    promise p = { t->session, t->seq, t->epoch, t->node };
    const mrd_session *s = mrd_core_session(w->core, t->session);

    if (!MRD_VEC_ROOM(m->promises, m->n_promises, m->cap_promises, 1))
        abort();
    m->promises[m->n_promises++] = p;
    if (s != NULL && !s->deleted && (again || sim_chance(w, 250)) && !is_durable(w, s, &p))
        sim_fail(w,
                 "node %u: frame %llu of session %s was answered as stored%s, and is not durable",
                 p.node, (unsigned long long) p.seq, s->text, again ? " before" : "");
}

bool
store_is_gone(world *w, uint64_t session)
{
    const disk_session *d = disk_of(w, session);

    return d != NULL && (d->removed || d->forgotten);
}

sim_disk *
store_disk(world *w)
{
    return w->store->disk;
}

const mrd_session_store *
store_folder(world *w)
{
    return &w->store->store;
}

/* All frames acknowledged as stored before the crash must be present after it. A session that
 * cannot be read yet is checked when it is. */
static void
check_promises(world *w)
{
    const store_model *m = w->store;

    for (size_t i = 0; i < m->n_promises && w->r->ok; i++) {
        const promise *p = &m->promises[i];
        const mrd_session *s = mrd_core_session(w->core, p->session);
        const mrd_frame promised = { .epoch = p->epoch, .seq = p->seq };
        const mrd_part *part;
        char id[24];

        if (store_is_gone(w, p->session) || mrd_core_withheld(w->core, p->session) != NULL)
            continue;
        snprintf(id, sizeof(id), "i-%u", p->node);
        part = s == NULL ? NULL : mrd_session_part(s, id);
        if (part == NULL || !mrd_part_has(part, &promised))
            sim_fail(w,
                     "node %u: frame %llu of session %llu was answered as stored, and is gone %s",
                     p->node, (unsigned long long) p->seq, (unsigned long long) p->session,
                     s == NULL      ? "with its session"
                     : part == NULL ? "with its node"
                                    : "");
    }
}

/* Checks that each frame in a node's journal is complete and has the bytes that the node sent. Adds
 * the frames to `d`. */
static void
read_frames(world *w, disk_session *d, unsigned node, const mrd_journal_index *x)
{
    mrd_buf buf = { 0 };

    for (size_t k = 0; k < x->n && w->r->ok; k++) {
        mrd_bytes body;
        mrd_frame f;
        mrd_why why = { 0 };
        bool fine = mrd_journal_read(x, &x->entries[k], false, &buf, &f, &body, &why) == MRD_OK;

        if (!fine || !is_as_sent(w, node, &f, body))
            sim_fail(w, "node %u: frame %llu of the journal is not the one that was sent: %s", node,
                     (unsigned long long) x->entries[k].frame.seq, why.text);
        else
            frame_add(d, &(stored_frame){ .session = d->id,
                                          .seq = f.seq,
                                          .epoch = f.epoch,
                                          .events = f.events,
                                          .node = node,
                                          .type = f.type,
                                          .synced = true });
    }
    mrd_buf_fini(&buf);
}

/* Reads the frames of all journals from the simulated disk, for the checks at the end. */
void
store_read_back(world *w)
{
    for (size_t i = 0; i < w->core->n_sessions; i++) {
        const mrd_session *s = w->core->sessions[i];
        disk_session *d = disk_make(w, s->id);

        d->n_frames = 0;
        for (unsigned node = 0; node < w->plan->nodes; node++) {
            mrd_journal_index x;
            char *dir = mrd_session_store_path(&w->store->store, s->text, "journal/i-%u", node);

            if (mrd_journal_scan(dir, &x, NULL) != MRD_OK)
                sim_fail(w, "%s cannot be read", dir);
            else {
                read_frames(w, d, node, &x);
                w->r->duplicates += x.duplicates;
                /* frames whose write failed were sent and written again */
                if (x.duplicates > w->r->not_stored)
                    sim_fail(w, "%s holds %llu frames twice", dir,
                             (unsigned long long) x.duplicates);
                mrd_journal_index_fini(&x);
            }
            free(dir);
        }
    }
    check_promises(w);
    sim_mix(w, sim_disk_hash(w->store->disk));
}

/* ---- Lifecycle ---- */

static void
run_thread(world *w, uint64_t thread, uint64_t turn, void *p)
{
    (void) w;
    (void) p;
    sim_thread_run((sim_thread *) (uintptr_t) thread, turn);
}

static void
later(void *self, int64_t ns, sim_thread *t, uint64_t turn)
{
    world *w = self;

    sim_at(w, w->now + ns, run_thread, (uint64_t) (uintptr_t) t, turn, NULL);
}

static int64_t
monotonic(void *self)
{
    struct timespec now; /* clock of the simulated machine whose code runs now */

    (void) self;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * MRD_SEC + now.tv_nsec;
}

static void *
owner(void *self)
{
    (void) self;
    return node_of_turn();
}

static void
enter(void *self, void *node)
{
    world *w = self;

    if (node != NULL && node_of_turn() == NULL) /* its descriptor wakes the loop */
        node_wake(node, w->now + 50 * MRD_US);
    turn_of(w, node);
}

void
store_boot(world *w, const char *name)
{
    mrd_bytes text = { (const uint8_t *) name, strlen(name) };

    w->store->quiet = true;
    sim_disk_set_quota(w->store->disk, 0);
    MRD_ASSERT(mrd_write_file_durable(BOOT_AT, text, 0600, NULL) == MRD_OK);
    store_full(w, w->disk_full);
    w->store->quiet = false;
}

void
store_new(world *w)
{
    static const unsigned rates[] = { 1500, 1500, 1500, 500, 150 };
    static const long types[] = { EXT4_SUPER_MAGIC, TMPFS_MAGIC };
    store_model *m = calloc(1, sizeof(*m));

    /* Chooses the seed of hash tables now, before the run draws its random numbers, so that the run
     * is the same in each process. */
    (void) mrd_hash_seed();
    m->w = w;
    w->store = m;
    m->disk = sim_disk_new("server", &(sim_disk_options){ .seed = w->plan->seed,
                                                          .before = before,
                                                          .self = m,
                                                          .type = types[sim_below(w, 2)] });
    m->error_in = rates[sim_below(w, MRD_COUNT(rates))];
    sim_disk_redirect(BOOT_ID, BOOT_AT);
    turn_of(w, NULL);
    sim_threads_begin(&(sim_threads_options){
        .later = later, .monotonic = monotonic, .owner = owner, .enter = enter, .self = w });
    mrd_log_init("sim", w->plan->verbose ? 2 : -1, MRD_LOG_WARN, false);
}

/* Opens the directory and its timeline. Returns false if it cannot be used now, or the process was
 * killed. */
bool
store_open(world *w)
{
    store_model *m = w->store;

    m->open = mrd_session_store_open(&m->store, STORE, MRD_SYNC_GROUP, &w->scale, NULL) == MRD_OK;
    if (!m->open)
        mrd_session_store_fini(&m->store);
    return m->open;
}

/* Updates the model with the recovered sessions. */
static void
recovered(world *w)
{
    for (size_t i = 0; i < w->n_disk; i++) {
        const mrd_session *s = mrd_core_session(w->core, w->disk[i].id);

        /* A session that is present again after the crash will be deleted again. */
        w->disk[i].removed = w->disk[i].removed && s == NULL;
        w->disk[i].forgotten = s != NULL && s->deleted;
    }
    for (size_t i = 0; i < w->core->n_sessions; i++) { /* recovered data is on the medium */
        const mrd_session *s = w->core->sessions[i];
        disk_session *d = disk_make(w, s->id);

        d->durable_go = d->durable_go || s->go.ns != 0;
        d->durable_stop = d->durable_stop || s->stop.ns != 0;
    }
    check_promises(w);
    if (w->plan->real) {
        files_recovered(w);
        merge_recovered(w);
        shared_recovered(w);
    }
}

bool
store_loop(world *w, const mrd_core_options *core)
{
    if (!loop_begin(w, &w->store->store, core))
        return false;
    recovered(w);
    return true;
}

bool
store_recover(world *w)
{
    store_model *m = w->store;
    mrd_journals_options journals = {
        .store = &m->store, .stored = on_stored, .closed = on_closed, .self = m
    };
    mrd_cleaner_options cleaner = { .store = &m->store,
                                    .measured = on_measured,
                                    .removed = on_removed,
                                    .disk = on_disk,
                                    .gone = on_gone,
                                    .self = m };

    if (mrd_session_store_recover(&m->store, w->core, NULL) != MRD_OK || !w->up)
        return false;
    /* The model does not read unreadable sessions again, as the real loop does, so it restarts. */
    if (w->core->unreadable > 0)
        return false;
    recovered(w);
    return mrd_journals_open(&journals, &m->journals, NULL) == MRD_OK &&
           mrd_pool_open("manifests", 1, 65536, &m->manifests, NULL) == MRD_OK &&
           mrd_cleaner_open(&cleaner, &m->cleaner, NULL) == MRD_OK && w->up;
}

/* The process ends. The calls of its threads fail on a dead disk. */
void
store_crash(world *w, bool power)
{
    store_model *m = w->store;

    sim_disk_die(m->disk);
    m->dies_in = 0;
    if (w->plan->real)
        loop_end(w);
    mrd_journals_close(m->journals);
    mrd_pool_close(m->manifests);
    mrd_cleaner_close(m->cleaner);
    m->journals = NULL;
    m->manifests = NULL;
    m->cleaner = NULL;
    if (m->open)
        mrd_session_store_fini(&m->store);
    m->open = false;
    if (power)
        sim_disk_cut_power(m->disk, (sim_disk_keep) sim_below(w, SIM_DISK_KEEPS));
    else
        sim_disk_kill(m->disk);
}

void
store_free(world *w)
{
    store_model *m = w->store;

    store_crash(w, false);
    sim_threads_end();
    sim_disk_redirect(NULL, NULL);
    turn_of(NULL, NULL);
    sim_disk_free(m->disk);
    free(m->promises);
    free(m);
    w->store = NULL;
}
