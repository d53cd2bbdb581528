/* Fuzzes the reader of manifests. The input is the manifest of the only session of a store. It is
 * loaded as at the start of the aggregator, written, and loaded again. The second load has the same
 * nodes, triggers and artifacts. An unreadable manifest is not changed, and protects its artifacts
 * from removal. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/store/store.h"
#include "base/conf/log.h"
#include "base/sys/out.h"

#define NAME "20260101-000000-0001"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    mrd_session_store store;
    mrd_core *core;
} opened;

static opened
recover(const char *dir)
{
    mrd_core_options o = { .limits = { .max_nodes = 10 } };
    opened d;

    if (mrd_session_store_open(&d.store, dir, MRD_SYNC_NONE, &o.timescale, NULL) != MRD_OK ||
        (d.core = mrd_core_new(
             &o, (mrd_core_time){ .local = mrd_local_now(), .wall = mrd_wall_now() })) == NULL ||
        mrd_session_store_recover(&d.store, d.core, NULL) != MRD_OK ||
        d.core->n_sessions + d.core->unreadable != 1)
        abort();
    return d;
}

static void
save(const opened *d)
{
    mrd_manifest_context x = mrd_core_manifest_context(d->core);
    mrd_json *o = mrd_session_json(d->core->sessions[0], &x);
    char *path = mrd_session_store_path(&d->store, NAME, "session.json");
    mrd_buf text = { 0 };

    mrd_json_write(o, true, &text);
    if (mrd_session_store_write(&d->store, path, &text, NULL) != MRD_OK)
        abort();
    mrd_buf_fini(&text);
    mrd_json_free(o);
    free(path);
}

static void
done(opened *d)
{
    mrd_core_free(d->core);
    mrd_session_store_fini(&d->store);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/mrd-fuzz-XXXXXX", path[96];
    static bool quiet;
    opened first, second;

    if (!quiet)
        mrd_log_init("fuzz", open("/dev/null", O_WRONLY | O_CLOEXEC), MRD_LOG_ERROR, false);
    quiet = true;
    if (mkdtemp(dir) == NULL)
        abort();
    snprintf(path, sizeof(path), "%s/sessions/" NAME "/session.json", dir);
    if (mrd_write_file(path, (mrd_bytes){ data, size }, 0600, NULL) != MRD_OK)
        abort();
    first = recover(dir);
    if (first.core->n_sessions == 1) {
        const mrd_session *a = first.core->sessions[0], *b;

        save(&first);
        mrd_session_store_fini(&first.store); /* a store allows one process at a time */
        second = recover(dir);
        if (second.core->n_sessions != 1)
            abort();
        b = second.core->sessions[0];
        if (a->n_parts != b->n_parts || a->n_triggers != b->n_triggers ||
            a->n_artifacts != b->n_artifacts || a->state != b->state)
            abort();
        done(&second);
    }
    done(&first);
    mrd_remove_tree(dir);
    return 0;
}
