#include "trace/sink/perfetto/pf_processes.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

/* first uuid of processes and threads; rows have smaller uuids */
#define UUID_BASE (1ull << 40)

typedef struct {
    mrd_pf_file *file;
    const mrd_catalog *catalog;
    /* indexed by mrd_proc_id: the pid that the process has in the trace; 0 until it is written */
    int32_t *pid;
    mrd_map pids, tids;
    int32_t next_pid;
    int64_t next_tid;
    uint64_t next_uuid;
    mrd_buf packet, name;
    mrd_err err;
} tables;

/* Returns `wanted` as the pid or tid if it is valid and free. Otherwise returns *next, and
 * increments it. */
static int64_t
number_of(tables *t, mrd_map *used, int64_t wanted, int64_t max, int64_t *next)
{
    mrd_map_key key = { .a = (uint64_t) wanted };

    if (wanted <= 0 || wanted >= max || mrd_map_get(used, key) != MRD_MAP_NONE)
        return (*next)++;
    if (mrd_map_put(used, key, 0) != MRD_OK)
        t->err = MRD_NOMEM;
    return wanted;
}

static size_t
open_descriptor(tables *t)
{
    size_t row;

    mrd_buf_reset(&t->packet);
    row = mrd_pb_open(&t->packet, PF_TRACK_DESCRIPTOR);
    mrd_pb_u64(&t->packet, PF_TRACK_UUID, UUID_BASE + t->next_uuid++);
    return row;
}

static void
write_process(tables *t, mrd_proc_id id)
{
    const mrd_process *process = mrd_catalog_borrow_process(t->catalog, id);
    int64_t next = t->next_pid;
    size_t row, part;

    t->pid[id] = (int32_t) number_of(
        t, &t->pids, (process->flags & MRD_PROC_NO_PID) != 0 ? 0 : process->process_id,
        MRD_PF_PID_FREE, &next);
    t->next_pid = (int32_t) next;
    t->name.len = 0; /* empties the buffer for the next name */
    if (process->rank != MRD_NONE)
        mrd_buf_fmt(&t->name, "rank %lld, ", (long long) process->rank);
    mrd_buf_str(&t->name, mrd_catalog_text(t->catalog, process->instance_id));
    if ((process->flags & (MRD_PROC_NO_PID | MRD_PROC_NODE)) == 0)
        mrd_buf_fmt(&t->name, " pid %lld", (long long) process->process_id);
    if (process->name != MRD_SID_EMPTY) {
        mrd_buf_text(&t->name, ": ");
        mrd_buf_str(&t->name, mrd_catalog_text(t->catalog, process->name));
    }
    row = open_descriptor(t);
    part = mrd_pb_open(&t->packet, PF_TRACK_PROCESS);
    mrd_pb_u64(&t->packet, PF_PROCESS_PID, (uint64_t) t->pid[id]);
    mrd_pb_str(&t->packet, PF_PROCESS_NAME, (mrd_str){ (char *) t->name.p, t->name.len });
    mrd_pb_close(&t->packet, part);
    mrd_pb_close(&t->packet, row);
    mrd_pf_packet(t->file, &t->packet);
}

static void
write_thread(tables *t, const mrd_track *track)
{
    mrd_str name = mrd_catalog_text(t->catalog, track->name);
    mrd_map_key key = { .a = track->process, .b = (uint64_t) track->thread_id, .c = 1 };
    size_t row, part;

    if (mrd_map_get(&t->tids, key) != MRD_MAP_NONE)
        /* a thread may have several tracks, but its descriptor is written once */
        return;
    if (mrd_map_put(&t->tids, key, 0) != MRD_OK)
        t->err = MRD_NOMEM;
    row = open_descriptor(t);
    part = mrd_pb_open(&t->packet, PF_TRACK_THREAD);
    mrd_pb_u64(&t->packet, PF_THREAD_PID, (uint64_t) t->pid[track->process]);
    mrd_pb_u64(&t->packet, PF_THREAD_TID,
               (uint64_t) number_of(t, &t->tids, track->thread_id, INT64_MAX, &t->next_tid));
    if (name.len > 0)
        mrd_pb_str(&t->packet, PF_THREAD_NAME, name);
    mrd_pb_close(&t->packet, part);
    mrd_pb_close(&t->packet, row);
    mrd_pf_packet(t->file, &t->packet);
}

mrd_err
mrd_pf_write_processes(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile)
{
    tables t = { .file = file,
                 .catalog = cat,
                 .pid = calloc(mrd_catalog_processes(cat) + 1, sizeof(*t.pid)),
                 .next_pid = MRD_PF_PID_FREE,
                 .next_tid = 1ll << 40 };

    if (t.pid == NULL)
        return MRD_NOMEM;
    for (mrd_track_id id = 0; id < mrd_catalog_tracks(cat); id++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, id);

        if (mrd_catalog_profile_of(cat, id) != profile)
            continue;
        if (t.pid[track->process] == 0)
            write_process(&t, track->process);
        if (track->thread_id != MRD_NONE)
            write_thread(&t, track);
    }
    free(t.pid);
    mrd_map_fini(&t.pids);
    mrd_map_fini(&t.tids);
    mrd_buf_fini(&t.packet);
    t.err = t.name.err != MRD_OK ? t.name.err : t.err;
    mrd_buf_fini(&t.name);
    return t.err;
}

/* ---- Arguments with the identity of a track ---- */

mrd_err
mrd_pf_identity_init(mrd_pf_identity *to, const mrd_catalog *cat)
{
    mrd_strtab *strings = mrd_catalog_strings(cat);

    *to = (mrd_pf_identity){ .catalog = cat,
                             .instance = mrd_strtab_addz(strings, "instance_id"),
                             .process = mrd_strtab_addz(strings, "process_id"),
                             .core = mrd_strtab_addz(strings, "lnc_idx"),
                             .rank = mrd_strtab_addz(strings, "rank"),
                             .rows = calloc(mrd_catalog_tracks(cat) + 1, sizeof(*to->rows)) };
    return to->rows == NULL ? MRD_NOMEM : MRD_OK;
}

void
mrd_pf_identity_fini(mrd_pf_identity *id)
{
    free(id->rows);
    *id = (mrd_pf_identity){ 0 };
}

void
mrd_pf_identity_again(mrd_pf_identity *id)
{
    for (size_t i = 0; id->rows != NULL && i < mrd_catalog_tracks(id->catalog); i++)
        id->rows[i].made = false;
}

enum { SAYS_INSTANCE = 1, SAYS_PROCESS = 2, SAYS_CORE = 4, SAYS_RANK = 8 };

static unsigned
says(const mrd_pf_identity *of, const mrd_event *ev)
{
    unsigned which = 0;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        mrd_sid key = ev->args[i].key;

        which |= key == of->instance  ? SAYS_INSTANCE
                 : key == of->process ? SAYS_PROCESS
                 : key == of->core    ? SAYS_CORE
                 : key == of->rank    ? SAYS_RANK
                                      : 0u;
    }
    return which;
}

void
mrd_pf_identity_add(mrd_pf_identity *of, mrd_pf_names *names, mrd_buf *event, const mrd_event *ev)
{
    mrd_pf_identity_row *row = &of->rows[ev->track];
    unsigned said = says(of, ev);
    const mrd_track *track;
    const mrd_process *process;
    size_t start = event->len, len;
    mrd_arg args[4];
    uint32_t count = 0;

    if (said == 0 && row->made) {
        if (mrd_buf_room(event, sizeof(row->bytes))) {
            /* none of the event's own arguments has one of these names, so the encoded arguments
             * are complete */
            memcpy(event->p + event->len, row->bytes, sizeof(row->bytes));
            event->len += row->len;
        }
        return;
    }
    track = mrd_catalog_borrow_track(of->catalog, ev->track);
    process = mrd_catalog_borrow_process(of->catalog, track->process);
    if (process->instance_id != MRD_SID_EMPTY && !(said & SAYS_INSTANCE))
        args[count++] =
            (mrd_arg){ .key = of->instance, .type = MRD_ARG_STR, .v.sid = process->instance_id };
    if ((process->flags & (MRD_PROC_NO_PID | MRD_PROC_NODE)) == 0 && !(said & SAYS_PROCESS))
        args[count++] =
            (mrd_arg){ .key = of->process, .type = MRD_ARG_INT, .v.i = process->process_id };
    if (track->lnc_idx != MRD_NONE && !(said & SAYS_CORE))
        args[count++] = (mrd_arg){ .key = of->core, .type = MRD_ARG_INT, .v.i = track->lnc_idx };
    if (process->rank != MRD_NONE && !(said & SAYS_RANK))
        args[count++] = (mrd_arg){ .key = of->rank, .type = MRD_ARG_INT, .v.i = process->rank };
    mrd_pf_args(names, event, args, count);
    len = event->len - start;
    if (said != 0 || len > sizeof(row->bytes) || event->err != MRD_OK || names->err != MRD_OK)
        return;
    memcpy(row->bytes, event->p + start, len);
    row->len = (uint8_t) len;
    row->made = true;
}
