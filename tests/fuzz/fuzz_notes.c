/* Fuzzes the file `sessions`, in which an agent saves its sessions for the next agent. With any
 * contents the agent starts, has no session twice, and stays within the limit. The file that it
 * then writes is read back completely. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/record/record.h"
#include "base/sys/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mrd_record *
open_record(const char *path, mrd_record_options *o)
{
    mrd_drain_options po = { .instance_id = "i-1",
                             .ring_dir = "/nonexistent",
                             .proc_root = "/nonexistent" };
    mrd_record *r = NULL;

    *o = (mrd_record_options){ .recorder_max = 1 << 20, .boot_id = "boot-1", .state_path = path };
    if (mrd_spool_open(&(mrd_spool_options){ .max_bytes = MRD_SPOOL_MIN_BYTES }, &o->spool, NULL) !=
            MRD_OK ||
        mrd_drain_open(&po, &o->drain, NULL) != MRD_OK || mrd_record_open(o, &r, NULL) != MRD_OK ||
        mrd_record_sessions(r) > MRD_RECORD_SESSIONS)
        abort();
    return r;
}

static void
close_record(mrd_record *r, const mrd_record_options *o)
{
    mrd_record_close(r);
    mrd_drain_close(o->drain);
    mrd_spool_close(o->spool);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[] = "/tmp/mrd-fuzz-notes-XXXXXX";
    Mrd__Control more = MRD__CONTROL__INIT;
    mrd_record_options o;
    mrd_record *r;
    size_t n;
    int fd = path[sizeof(path) - 2] == 'X' ? mkstemp(path) : -1;

    if (fd >= 0)
        close(fd);
    if (mrd_write_file(path, (mrd_bytes){ data, size }, 0600, NULL) != MRD_OK)
        abort();
    r = open_record(path, &o);
    for (size_t i = 0; i < mrd_record_sessions(r); i++) {
        mrd_record_status a, b;

        mrd_record_get(r, i, &a);
        if (!mrd_record_find(r, a.id, &b) || b.start.ns != a.start.ns)
            abort();
    }
    mrd_record_step(r, mrd_local_now());
    more.session = 0x0123456789abcdef; /* so that all are written again */
    (void) mrd_record_arm(r, &more, NULL);
    n = mrd_record_sessions(r);
    for (size_t i = 0; i < mrd_record_sessions(r); i++) {
        mrd_record_status st;

        mrd_record_get(r, i, &st);
        n -= st.phase == MRD__NODE_PHASE__NODE_FLUSHED;
    }
    close_record(r, &o);
    r = open_record(path, &o);
    if (mrd_record_sessions(r) != n)
        abort();
    close_record(r, &o);
    unlink(path);
    return 0;
}
