/* Simulates files that workloads write into capture directories, and checks their transfer to the
 * aggregator. A file that was acknowledged as stored must be complete on the disk, once. No
 * incomplete file may be served. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "aggregator/core/model/files.h"
#include "base/hash.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "base/vec.h"
#include "tests/sim/cluster_node.h"

#define STORE     "/sim/server/store"
#define VERSIONS  3
#define FILE_MAX  40000
#define PID       1000
#define WALL_0    (1750000000LL * MRD_SEC)
#define TIME_ROOM (100 * MRD_MS) /* tolerance between times of files and of sessions */

/* A file that a workload writes. It grows in up to 3 steps. After each step, the file may stay
 * unchanged long enough that the agent sends this version. */
typedef struct work_file {
    char name[32];
    uint64_t seed;
    size_t size[VERSIONS];
    char hex[VERSIONS][MRD_SHA256_HEX];
    unsigned n, written;
    int64_t written_at; /* true time at which the last of these versions was written */
} work_file;

typedef struct file_promise {
    uint64_t session;
    unsigned node;
    char hex[MRD_SHA256_HEX];
} file_promise;

/* ---- The workload ---- */

static void
content(const work_file *f, size_t len, mrd_buf *to)
{
    uint64_t x = f->seed | 1;

    for (size_t i = 0; i < len; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        mrd_buf_byte(to, (uint8_t) (x >> 32));
    }
}

static void
hash_of(mrd_bytes data, char hex[MRD_SHA256_HEX])
{
    mrd_sha256 *sum = mrd_sha256_new();

    if (sum == NULL)
        abort();
    mrd_sha256_add(sum, data.p, data.len);
    mrd_sha256_hex(sum, hex);
    mrd_sha256_free(sum);
}

static void
write_on(world *w, uint64_t index, uint64_t which, void *p)
{
    sim_node *n = w->agents[index].node;
    work_file *f = &n->files[which];
    size_t from = f->written == 0 ? 0 : f->size[f->written - 1];
    mrd_buf data = { 0 };
    char path[160];
    int fd;

    (void) p;
    content(f, f->size[f->written], &data);
    snprintf(path, sizeof(path), "%s/%s_pid_%d/%s", n->capture, n->a->id, PID, f->name);
    turn_of(w, n); /* the file gets its modification time from the node's clock */
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    MRD_ASSERT(fd >= 0);
    if (data.len > from)
        MRD_ASSERT(write(fd, data.p + from, data.len - from) == (ssize_t) (data.len - from));
    close(fd);
    turn_of(w, NULL);
    mrd_buf_fini(&data);
    if (w->plan->verbose)
        printf("%10.3f %s writes %s: %zu bytes, %.8s\n", (double) w->now / 1e9, n->a->id, f->name,
               f->size[f->written], f->hex[f->written]);
    f->written++;
    f->written_at = w->now;
    if (f->written < f->n)
        sim_at(w, w->now + 100 * MRD_MS + (int64_t) sim_below(w, 4 * MRD_SEC), write_on, index,
               which, NULL);
}

/* Begins a new file on this node. Some files have the same contents on all nodes, because all ranks
 * of a job often load the same model. */
static void
file_new(sim_node *n)
{
    world *w = n->w;
    work_file f = { .n = 1 + (unsigned) sim_below(w, VERSIONS) };
    bool shared = sim_chance(w, 300);

    f.seed = shared ? 1 + sim_below(w, 4) : sim_random(w);
    f.n = shared ? 1 : f.n;
    snprintf(f.name, sizeof(f.name), "model_%zu.neff", n->n_files);
    for (unsigned i = 0; i < f.n; i++) {
        mrd_buf data = { 0 };

        f.size[i] = i > 0 ? f.size[i - 1] + 1 : 0;
        if (i > 0 || sim_chance(w, 900)) /* otherwise the file is empty */
            f.size[i] += shared ? f.seed * 5000 : sim_below(w, FILE_MAX / VERSIONS);
        content(&f, f.size[i], &data);
        hash_of((mrd_bytes){ data.p, data.len }, f.hex[i]);
        mrd_buf_fini(&data);
    }
    if (!MRD_VEC_NEXT(n->files, n->n_files))
        abort();
    n->files[n->n_files++] = f;
    write_on(w, n->a->index, n->n_files - 1, NULL);
}

void
files_work(world *w, uint64_t index, uint64_t boot, void *p)
{
    sim_node *n = w->agents[index].node;

    if (n->boot != boot || w->now > w->plan->duration + 15 * MRD_SEC)
        return;
    if (!n->suspended)
        file_new(n);
    sim_at(w,
           w->now + MRD_SEC +
               (int64_t) sim_below(w, w->plan->mostly == SIM_MOSTLY_FILES ? 3 * MRD_SEC
                                                                          : 12 * MRD_SEC),
           files_work, index, boot, p);
}

void
files_new(sim_node *n)
{
    char name[32], path[160];

    snprintf(name, sizeof(name), "work-%s", n->a->id);
    n->work = sim_disk_new(name, &(sim_disk_options){ .seed = n->a->key, .type = 0xef53 });
    snprintf(n->capture, sizeof(n->capture), "/sim/%s/capture", name);
    snprintf(path, sizeof(path), "%s/%s_pid_%d", n->capture, n->a->id, PID);
    MRD_ASSERT(mrd_make_dirs(path, NULL) == MRD_OK);
    mrd_safe_open_old_kernel(
        /* openat2 is not a function of the C library, so it would bypass the simulated disks */
        true);
    n->watch[0] = n->capture;
    n->o.watch.v = n->watch;
    n->o.watch.n = 1;
}

void
files_free(sim_node *n)
{
    sim_disk_free(n->work);
    free(n->files);
}

/* ---- Files that exist ---- */

/* Returns true if `hex` is the hash of a version of a workload's file. If `of` or `name` is NULL,
 * files of all nodes or with all names are compared. */
static bool
is_version(const world *w, const sim_node *of, const char *name, const char *hex)
{
    for (unsigned i = 0; i < w->plan->nodes; i++) {
        const sim_node *n = w->agents[i].node;

        for (size_t k = 0; k < n->n_files && (of == NULL || of == n); k++) {
            const work_file *f = &n->files[k];

            for (unsigned v = 0; v < f->n; v++) {
                if (strcmp(f->hex[v], hex) == 0 && (name == NULL || strcmp(f->name, name) == 0))
                    return true;
            }
        }
    }
    return false;
}

/* Hashes the current contents of the file. The result is "" if it does not exist. */
static void
hash_of_file(const char *path, char hex[MRD_SHA256_HEX])
{
    hex[0] = '\0';
    (void) mrd_sha256_file(path, hex, NULL, NULL);
}

static const mrd_listed_artifact *
listed(const mrd_session *s, const char *instance_id, const char *hex)
{
    for (size_t i = 0; i < s->n_artifacts; i++) {
        if (strcmp(s->artifacts[i].sha256, hex) == 0 &&
            strcmp(s->artifacts[i].instance_id, instance_id) == 0)
            return &s->artifacts[i];
    }
    return NULL;
}

/* Returns true if the session's manifest on the medium lists the file with this hash as complete.
 * That may be so before the file's line in artifacts.log is durable. */
static bool
manifest_has(world *w, const mrd_session *s, const char *hex)
{
    char path[200];
    sim_disk *copy;
    mrd_json *o = NULL, *list;
    bool found = false;

    snprintf(path, sizeof(path), "store/sessions/%s", s->text);
    copy = sim_disk_durable_copy(store_disk(w), path, "session.json", "medium");
    (void) mrd_json_load_up_to("/sim/medium/session.json", MRD_JSON_MANIFEST, &o, NULL);
    list = o == NULL ? NULL : mrd_json_get(o, "artifacts");
    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++) {
        const mrd_json *a = mrd_json_at(list, i);

        found = found || (strcmp(mrd_json_str(a, "sha256", ""), hex) == 0 &&
                          mrd_json_bool(a, "complete", false));
    }
    mrd_json_free(o);
    sim_disk_free(copy);
    return found;
}

/* Checks that the file with this hash would survive a power failure now. Its entry in the session's
 * artifacts.log or manifest must survive too. */
static void
check_durable(world *w, const mrd_session *s, const char *node, const char *hex)
{
    sim_disk *copy = sim_disk_durable_copy(store_disk(w), "store/artifacts", hex, "medium");
    char path[200], found[MRD_SHA256_HEX];
    mrd_buf log = { 0 };
    bool logged;

    snprintf(path, sizeof(path), "/sim/medium/%s", hex);
    hash_of_file(path, found);
    sim_disk_free(copy);
    snprintf(path, sizeof(path), "store/sessions/%s", s->text);
    copy = sim_disk_durable_copy(store_disk(w), path, "artifacts.log", "medium");
    logged = mrd_file_read("/sim/medium/artifacts.log", 1 << 24, &log, NULL) == MRD_OK &&
             memmem(log.p, log.len, hex, strlen(hex)) != NULL;
    sim_disk_free(copy);
    mrd_buf_fini(&log);
    if (strcmp(found, hex) != 0)
        sim_fail(w, "node %s: file %.8s was answered as stored and is %s on the medium", node, hex,
                 found[0] == '\0' ? "not" : "half");
    else if (!logged && !manifest_has(w, s, hex))
        sim_fail(w,
                 "node %s: file %.8s was answered as stored and session %s does not have it on "
                 "the medium",
                 node, hex, s->text);
}

static void
promised(world *w, const agent *a, uint64_t session, const char *hex)
{
    const mrd_session *s = mrd_core_session(w->core, session);
    file_promise p = { .session = session, .node = a->index };

    snprintf(p.hex, sizeof(p.hex), "%.64s", hex);
    if (!MRD_VEC_NEXT(w->file_promises, w->n_file_promises))
        abort();
    w->file_promises[w->n_file_promises++] = p;
    w->r->files++;
    if (s != NULL && listed(s, a->id, hex) != NULL)
        check_durable(w, s, a->id, hex);
}

void
files_answered(world *w, const agent *a, const mrd_msg *request, const mrd_msg *answer)
{
    uint64_t session = request->frame.session;

    if (w->plan->verbose && request->frame.type == MRD_FRAME_ANNOUNCE &&
        answer->frame.type == MRD_FRAME_REQUEST)
        printf("%10.3f %s announces %s, %.8s, session %llx: %u %s\n", (double) w->now / 1e9, a->id,
               request->u.announce->name, request->u.announce->sha256, (unsigned long long) session,
               answer->u.request->err, answer->u.request->message);
    if (request->frame.type == MRD_FRAME_ANNOUNCE && answer->frame.type == MRD_FRAME_REQUEST) {
        const Mrd__ArtifactAnnounce *o = request->u.announce;

        if (!is_version(w, a->node, o->name, o->sha256))
            sim_fail(w, "node %s: announces '%s', which was never like that", a->id, o->name);
        else if (answer->u.request->have && answer->u.request->err == 0)
            promised(w, a, session, o->sha256);
    } else if (request->frame.type == MRD_FRAME_DONE && answer->frame.type == MRD_FRAME_ACK &&
               answer->u.ack->status == MRD__ACK_STATUS__ACK_STORED && answer->u.ack->err == 0) {
        promised(w, a, session, request->u.done->sha256);
    }
}

/* ---- Which files of the workload must be in the aggregator's store at the end ---- */

static bool
is_promised(const world *w, const sim_node *n, uint64_t session, const char *hex)
{
    for (size_t i = 0; i < w->n_file_promises; i++) {
        const file_promise *p = &w->file_promises[i];

        if (p->node == n->a->index && p->session == session && strcmp(p->hex, hex) == 0)
            return true;
    }
    return false;
}

/* Files that a node's workload wrote while a session recorded belong to the session. A session must
 * not end before the aggregator has these files, unless a message reports why they were dropped. */
void
files_flushed(sim_node *n, const mrd_record_status *st)
{
    long double from = sim_clock_true(&n->a->clock, st->start.ns), to;
    mrd_files_stats stats;

    mrd_files_get_stats(n->agent->files, &stats);
    /* After a reboot of the aggregator with another wall clock the start has another time. */
    if (stats.failed > 0 || stats.hung > 0 || n->wall_stepped || n->boot > 1 || n->woken_at != 0 ||
        (n->w->n_timelines > 1 && n->w->server_steps > 0) || st->stop.ns == INT64_MAX)
        return;
    to = sim_clock_true(&n->a->clock, st->stop.ns);
    for (size_t i = 0; i < n->n_files; i++) {
        const work_file *f = &n->files[i];

        if (f->written == f->n && (long double) f->written_at > from + TIME_ROOM &&
            (long double) f->written_at < to && !is_promised(n->w, n, st->id, f->hex[f->n - 1]))
            sim_fail(n->w,
                     "node %s session %llx: it is flushed, and '%s', written at %.3f s, was not "
                     "delivered; it recorded from %.3f s to %.3f s",
                     n->a->id, (unsigned long long) st->id, f->name, (double) f->written_at / 1e9,
                     (double) from / 1e9, (double) to / 1e9);
    }
}

/* ---- After a crash and at the end ---- */

void
files_recovered(world *w)
{
    for (size_t i = 0; i < w->n_file_promises && w->r->ok; i++) {
        const file_promise *p = &w->file_promises[i];
        const mrd_session *s = mrd_core_session(w->core, p->session);
        const mrd_listed_artifact *a;

        if (s == NULL || store_is_gone(w, p->session) ||
            (a = listed(s, w->agents[p->node].id, p->hex)) == NULL)
            continue;
        if (!a->complete)
            sim_fail(w, "node %u: file %.8s was answered as stored, and session %s lacks it",
                     p->node, p->hex, s->text);
    }
}

/* Checks that each artifact in the store has the hash that is its name. */
static void
check_store(world *w)
{
    DIR *dir = opendir(STORE "/artifacts");
    const struct dirent *e;

    while (dir != NULL && (e = readdir(dir)) != NULL && w->r->ok) {
        char path[600], hex[MRD_SHA256_HEX];

        if (!mrd_hash_is_valid(e->d_name))
            continue;
        snprintf(path, sizeof(path), STORE "/artifacts/%s", e->d_name);
        hash_of_file(path, hex);
        if (strcmp(hex, e->d_name) != 0)
            sim_fail(w, "file %.8s is in the store with other bytes", e->d_name);
        else if (!is_version(w, NULL, NULL, hex))
            sim_fail(w, "file %.8s is in the store, and no node wrote it", e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
}

static void
check_listed(world *w, const mrd_session *s, const mrd_listed_artifact *a)
{
    const agent *of = &w->agents[strtoul(a->instance_id + 2, NULL, 10)];
    char path[700], hex[MRD_SHA256_HEX];

    if (!is_version(w, of->node, a->name, a->sha256))
        sim_fail(w, "session %s lists '%s' of node %s, which was never like that", s->text, a->name,
                 of->id);
    if (!a->complete)
        return;
    snprintf(path, sizeof(path), STORE "/artifacts/%s", a->sha256);
    hash_of_file(path, hex);
    if (strcmp(hex, a->sha256) != 0)
        sim_fail(w, "session %s has '%s' of node %s, and the store does not", s->text, a->name,
                 of->id);
    snprintf(path, sizeof(path), STORE "/sessions/%s/%s_pid_%d/%s", s->text, of->id, PID, a->name);
    hash_of_file(path, hex);
    if (hex[0] != '\0' && !is_version(w, of->node, a->name, hex))
        sim_fail(w, "session %s serves '%s' of node %s with other bytes", s->text, a->name, of->id);
}

void
files_end(world *w)
{
    files_recovered(w);
    check_store(w);
    for (size_t i = 0; i < w->core->n_sessions; i++) {
        const mrd_session *s = w->core->sessions[i];

        for (size_t k = 0; k < s->n_artifacts && !s->deleted && w->r->ok; k++)
            check_listed(w, s, &s->artifacts[k]);
    }
}
