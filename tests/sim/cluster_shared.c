/*
 * Checks exports of the real aggregator. Its exporter copies sessions into a directory on the same
 * simulated disk, with the same faults. The copy of a session that the core considers exported must
 * be durable, complete and equal to the store, also after each start. At the end of the run this
 * holds for every session.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregator/core/manifest/manifest.h"
#include "base/sys/file.h"
#include "base/sys/out.h"
#include "tests/sim/cluster_node.h"

#define SHARED   "/sim/server/shared"
#define FILE_MAX (64 << 20)

/* Sets the aggregator's options of exports: the target directory, and how the directory of each
 * session is named there. Does nothing if the plan of the run has no exports. */
void
shared_of(const world *w, mrd_loop_options *o)
{
    if (!w->plan->exports)
        return;
    o->export_to = SHARED;
    o->export_path = "{session}";
    /* if the disk is full, the next start of the aggregator makes the directory */
    (void) mrd_make_dirs_durable(SHARED, NULL);
}

static bool
same_bytes(const char *a, const char *b)
{
    mrd_buf x = { 0 }, y = { 0 };
    bool same = mrd_file_read(a, FILE_MAX, &x, NULL) == MRD_OK &&
                mrd_file_read(b, FILE_MAX, &y, NULL) == MRD_OK && x.len == y.len &&
                (x.len == 0 || memcmp(x.p, y.p, x.len) == 0);

    mrd_buf_fini(&x);
    mrd_buf_fini(&y);
    return same;
}

/* Compares the copied profile with the one in the store. The manifests are not compared, because
 * they may still change. */
static void
check_copy(world *w, const mrd_session *s, const char *when)
{
    char path[300], own[300], copied[300];
    const struct dirent *entry;
    mrd_json *manifest = NULL;
    sim_disk *copy;
    DIR *d;

    snprintf(path, sizeof(path), "shared/%s", s->text);
    copy = sim_disk_durable_copy(store_disk(w), path, NULL, "medium");
    if (mrd_json_load_up_to("/sim/medium/session.json", MRD_JSON_MANIFEST, &manifest, NULL) !=
        MRD_OK)
        sim_fail(w, "session %s %s exported, and its copy has no manifest", s->text, when);
    mrd_json_free(manifest);
    snprintf(own, sizeof(own), "/sim/server/store/sessions/%s/profile", s->text);
    d = opendir(own);
    while (d != NULL && (entry = readdir(d)) != NULL && w->r->ok) {
        if (entry->d_name[0] == '.' || mrd_str_ends(mrd_str_of(entry->d_name), ".part"))
            continue;
        snprintf(own, sizeof(own), "/sim/server/store/sessions/%s/profile/%.60s", s->text,
                 entry->d_name);
        snprintf(copied, sizeof(copied), "/sim/medium/profile/%.60s", entry->d_name);
        if (!same_bytes(own, copied))
            sim_fail(w, "session %s %s exported, and the copy of %s is not the same", s->text, when,
                     entry->d_name);
    }
    if (d != NULL)
        closedir(d);
    sim_disk_free(copy);
}

void
shared_told(world *w, const mrd_session *s)
{
    w->r->exports++;
    if (!s->copy.old && !s->deleted)
        check_copy(w, s, "is told to be");
}

void
shared_recovered(world *w)
{
    for (size_t i = 0; i < w->core->n_sessions && w->r->ok; i++) {
        const mrd_session *s = w->core->sessions[i];

        if (w->plan->exports && s->copy.state == MRD_EXPORT_DONE && !s->deleted &&
            !mrd_session_is_merging(s))
            check_copy(w, s, "was");
    }
}

void
shared_end(world *w)
{
    shared_recovered(w);
    for (size_t i = 0; i < w->core->n_sessions && w->r->ok && w->plan->exports; i++) {
        const mrd_session *s = w->core->sessions[i];

        if (!s->deleted && s->state == MRD_SESSION_COMPLETE && s->copy.state != MRD_EXPORT_DONE)
            sim_fail(w, "session %s: its export is %s: %s", s->text,
                     mrd_export_state_text(s->copy.state), s->copy.message);
    }
}
