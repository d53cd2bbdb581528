#include "trace/sink/group.h"

#include "base/obj.h"

static const struct {
    const char *name;
    const char *label; /* text before the field's value in a group's label */
} group_fields[] = {
    [MRD_GROUP_INSTANCE] = { "instance_id", "" },
    [MRD_GROUP_PROCESS] = { "process_id", "pid " },
    [MRD_GROUP_LNC] = { "lnc_idx", "NC " },
    [MRD_GROUP_THREAD] = { "thread_id", "tid " },
    [MRD_GROUP_WORKER] = { "worker_gid", "worker " },
    [MRD_GROUP_SIDE] = { "cpu_device", "" },
};

static mrd_err
group_add(mrd_str word, mrd_group *group, mrd_why *why)
{
    for (size_t f = 0; f < MRD_COUNT(group_fields); f++) {
        if (!mrd_str_is(word, group_fields[f].name))
            continue;
        for (size_t i = 0; i < group->n; i++) {
            if (group->field[i] == f)
                return mrd_why_set(why, MRD_INVALID, 0, "'" MRD_STR_FMT "' is named twice",
                                   MRD_STR_ARG(word));
        }
        group->field[group->n++] = (mrd_group_field) f;
        return MRD_OK;
    }
    return mrd_why_set(why, MRD_INVALID, 0,
                       "'" MRD_STR_FMT "' is not a field to group by; these are: instance_id, "
                       "process_id, lnc_idx, thread_id, worker_gid, cpu_device",
                       MRD_STR_ARG(word));
}

mrd_err
mrd_group_parse(mrd_str text, mrd_group *ret_group, mrd_why *why)
{
    mrd_group group = { 0 };

    for (;;) {
        const char *comma = text.len == 0 ? NULL : memchr(text.p, ',', text.len);
        size_t len = comma == NULL ? text.len : (size_t) (comma - text.p);
        mrd_err err = group_add((mrd_str){ text.p, len }, &group, why);

        if (err != MRD_OK)
            return err;
        if (comma == NULL)
            break;
        text = (mrd_str){ comma + 1, text.len - len - 1 };
    }
    *ret_group = group;
    return MRD_OK;
}

static bool
is_of_device(mrd_source_kind source)
{
    return source == MRD_SRC_DEVICE || source == MRD_SRC_DEVCTR || source == MRD_SRC_DEVPROF;
}

/* Returns the value of a numeric field of a track's group, such as the pid. MRD_NONE if the track
 * has none. */
static int64_t
group_number(const mrd_catalog *cat, mrd_group_field field, const mrd_track *track)
{
    const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);

    switch (field) {
    case MRD_GROUP_PROCESS:
        return process->process_id;
    case MRD_GROUP_LNC:
        return track->lnc_idx;
    case MRD_GROUP_THREAD:
        return track->thread_id;
    case MRD_GROUP_WORKER:
        return track->worker_gid != MRD_NONE ? track->worker_gid : process->worker_gid;
    case MRD_GROUP_SIDE:
        return is_of_device(track->source);
    case MRD_GROUP_INSTANCE:
    case MRD_GROUP_FIELDS:
        break;
    }
    return MRD_NONE;
}

/* Writes the value of a group's field for this track as text. Returns false if the track has no
 * value. */
static bool
group_value(const mrd_catalog *cat, mrd_group_field field, const mrd_track *track, mrd_buf *to)
{
    const mrd_process *process = mrd_catalog_borrow_process(cat, track->process);
    int64_t number = group_number(cat, field, track);

    if (field == MRD_GROUP_INSTANCE) {
        mrd_buf_str(to, mrd_catalog_text(cat, process->instance_id));
        return true;
    }
    if (field == MRD_GROUP_SIDE) {
        mrd_buf_text(to, is_of_device(track->source) ? "device" : "CPU");
        return true;
    }
    if (number == MRD_NONE || (field == MRD_GROUP_PROCESS && (process->flags & MRD_PROC_NODE)))
        return false;
    if (field == MRD_GROUP_PROCESS && (process->flags & MRD_PROC_NO_PID)) {
        mrd_buf_str(to, mrd_catalog_text(cat, process->name));
        return true;
    }
    mrd_buf_text(to, group_fields[field].label);
    if (number >= 0 && number < 100)
        mrd_buf_text(to, number < 10 ? "00" : "0");
    mrd_buf_i64(to, number);
    return true;
}

void
mrd_group_label(const mrd_catalog *cat, const mrd_group *group, mrd_track_id track, mrd_buf *to)
{
    const mrd_track *t = mrd_catalog_borrow_track(cat, track);
    bool any = false;

    for (size_t i = 0; i < group->n; i++) {
        size_t before = to->len;

        if (any)
            mrd_buf_text(to, " / ");
        if (group_value(cat, group->field[i], t, to))
            any = true;
        else
            to->len = before;
    }
    if (!any)
        mrd_buf_byte(to, '-');
}

static int
text_order(mrd_str a, mrd_str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n == 0 ? 0 : memcmp(a.p, b.p, n);

    return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

/* Orders processes by number. Those without a number are ordered by name. */
static int
process_order(const mrd_catalog *cat, const mrd_process *a, const mrd_process *b)
{
    uint32_t named = MRD_PROC_NO_PID | MRD_PROC_NODE;

    if ((a->flags & named) != (b->flags & named))
        return (a->flags & named) < (b->flags & named) ? -1 : 1;
    if (a->process_id != b->process_id)
        return a->process_id < b->process_id ? -1 : 1;
    if (a->scope != b->scope)
        return a->scope < b->scope ? -1 : 1;
    return a->flags & named
               ? text_order(mrd_catalog_text(cat, a->name), mrd_catalog_text(cat, b->name))
               : 0;
}

int
mrd_group_order(const mrd_catalog *cat, const mrd_group *group, mrd_track_id a, mrd_track_id b)
{
    const mrd_track *t = mrd_catalog_borrow_track(cat, a), *u = mrd_catalog_borrow_track(cat, b);
    const mrd_process *p = mrd_catalog_borrow_process(cat, t->process),
                      *q = mrd_catalog_borrow_process(cat, u->process);

    for (size_t i = 0; i < group->n; i++) {
        int64_t x = group_number(cat, group->field[i], t);
        int64_t y = group_number(cat, group->field[i], u);
        int order = group->field[i] == MRD_GROUP_INSTANCE
                        ? text_order(mrd_catalog_text(cat, p->instance_id),
                                     mrd_catalog_text(cat, q->instance_id))
                    : group->field[i] == MRD_GROUP_PROCESS ? process_order(cat, p, q)
                                                           : (x < y ? -1 : x > y);

        if (order != 0)
            return order;
    }
    return 0;
}
