#include "trace/sink/perfetto/pf_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"

/* A track with its sort keys. Sorting these structs puts all tracks in the order of their rows. */
typedef struct {
    mrd_track_id id;
    uint32_t group; /* number of the track's primary group */
    /* lowest rank and lowest sort index of the processes in the primary group; INT64_MAX if none
     * has one */
    int64_t rank, asked;
} row_key;

static int
by_primary(const void *a, const void *b, void *self)
{
    const mrd_pf_rows *rows = self;
    const row_key *x = a, *y = b;
    int order = mrd_group_order(rows->catalog, rows->primary, x->id, y->id);

    return order != 0 ? order : mrd_i64_order(x->id, y->id);
}

/* Orders the tracks of one secondary group. The criteria, in this order: spans before counters,
 * source, sort index, device, physical core, name. */
static int
track_order(const mrd_catalog *cat, mrd_track_id a, mrd_track_id b)
{
    const mrd_track *t = mrd_catalog_borrow_track(cat, a), *u = mrd_catalog_borrow_track(cat, b);
    int order;

    if (t->kind != u->kind)
        return t->kind < u->kind ? -1 : 1;
    if (t->source != u->source)
        return t->source < u->source ? -1 : 1;
    if ((order = mrd_i64_order(mrd_none_last(t->sort_index), mrd_none_last(u->sort_index))) != 0 ||
        (order = mrd_i64_order(t->device_idx, u->device_idx)) != 0 ||
        (order = mrd_i64_order(t->pcore_idx, u->pcore_idx)) != 0)
        return order;
    if ((order = strcmp(mrd_catalog_text(cat, t->name).p, mrd_catalog_text(cat, u->name).p)) != 0)
        return order;
    return mrd_i64_order(a, b);
}

static int
by_row(const void *a, const void *b, void *self)
{
    const mrd_pf_rows *rows = self;
    const row_key *x = a, *y = b;
    int order;

    if (x->group != y->group) {
        if ((order = mrd_i64_order(x->rank, y->rank)) != 0 ||
            (order = mrd_i64_order(x->asked, y->asked)) != 0)
            return order;
        return x->group < y->group ? -1 : 1;
    }
    order = mrd_group_order(rows->catalog, rows->secondary, x->id, y->id);
    return order != 0 ? order : track_order(rows->catalog, x->id, y->id);
}

static int64_t
process_rank(const mrd_process *process)
{
    return mrd_none_last(process->rank != MRD_NONE ? process->rank : process->worker_gid);
}

/* Sets `group`, `rank` and `asked` of each key. Tracks of the same primary group get the same
 * values. */
static void
rows_number_groups(mrd_pf_rows *rows, row_key *keys, size_t n)
{
    qsort_r(keys, n, sizeof(*keys), by_primary, rows);
    for (size_t i = 0, end; i < n; i = end) {
        int64_t rank = INT64_MAX, asked = INT64_MAX;

        for (end = i; end < n &&
                      mrd_group_order(rows->catalog, rows->primary, keys[i].id, keys[end].id) == 0;
             end++) {
            const mrd_track *track = mrd_catalog_borrow_track(rows->catalog, keys[end].id);
            const mrd_process *process = mrd_catalog_borrow_process(rows->catalog, track->process);

            rank = process_rank(process) < rank ? process_rank(process) : rank;
            asked = mrd_none_last(process->sort_index) < asked ? process->sort_index : asked;
        }
        for (size_t k = i; k < end; k++) {
            keys[k].group = (uint32_t) i;
            keys[k].rank = rank;
            keys[k].asked = asked;
        }
    }
}

static void
rows_drop(mrd_pf_rows *rows)
{
    free(rows->v);
    rows->v = NULL;
    rows->cap = rows->n = 0;
}

/* Adds a row under `parent` and returns the new row's index. After a failure rows->v is NULL, and
 * the result is 0 (the root). */
static uint32_t
rows_add(mrd_pf_rows *rows, mrd_pf_row_kind kind, uint32_t parent, mrd_track_id track)
{
    if (!MRD_VEC_ROOM(rows->v, rows->n, rows->cap, 1)) {
        rows_drop(rows);
        return 0;
    }
    rows->v[rows->n] = (mrd_row){ .kind = kind, .parent = parent, .track = track };
    if (kind != MRD_ROW_ROOT)
        rows->v[rows->n].index = rows->v[parent].children++;
    return (uint32_t) rows->n++;
}

/* Returns true if a track has none of the group's fields. A failure also gives true, and sets
 * rows->v to NULL. */
static bool
group_is_none(mrd_pf_rows *rows, const mrd_group *group, mrd_track_id track)
{
    mrd_buf label = { 0 };
    bool none;

    mrd_group_label(rows->catalog, group, track, &label);
    none = mrd_str_is((mrd_str){ (const char *) label.p, label.len }, "-");
    if (label.err != MRD_OK) {
        rows_drop(rows);
        none = true;
    }
    mrd_buf_fini(&label);
    return none;
}

/* Adds the rows of one secondary group, which has the tracks keys[0] to keys[count - 1]. */
static void
rows_add_secondary(mrd_pf_rows *rows, uint32_t primary, const row_key *keys, size_t count)
{
    uint32_t folder = primary, row = 0;
    size_t spans = 0;

    while (spans < count &&
           mrd_catalog_borrow_track(rows->catalog, keys[spans].id)->kind == MRD_TRACK_SPANS)
        spans++;
    if (!group_is_none(rows, rows->secondary, keys[0].id)) {
        folder =
            rows_add(rows, spans == 1 ? MRD_ROW_TRACK : MRD_ROW_SECONDARY, primary, keys[0].id);
        if (rows->v != NULL && spans == 1) {
            rows->v[folder].labelled = true;
            rows->of_track[keys[0].id] = folder;
        }
    } else {
        spans = 0;
    }
    for (size_t i = spans == 1 ? 1 : 0; i < count && rows->v != NULL; i++) {
        row = rows_add(rows, MRD_ROW_TRACK, folder, keys[i].id);
        rows->of_track[keys[i].id] = row;
    }
}

static void
rows_build(mrd_pf_rows *rows, const row_key *keys, size_t n)
{
    uint32_t primary = 0;

    rows_add(rows, MRD_ROW_ROOT, 0, 0);
    for (size_t i = 0, end; i < n && rows->v != NULL; i = end) {
        if (i == 0 || keys[i].group != keys[i - 1].group)
            primary = group_is_none(rows, rows->primary, keys[i].id)
                          ? 0
                          : rows_add(rows, MRD_ROW_PRIMARY, 0, keys[i].id);
        for (end = i + 1;
             end < n && keys[end].group == keys[i].group &&
             mrd_group_order(rows->catalog, rows->secondary, keys[i].id, keys[end].id) == 0;)
            end++;
        if (rows->v != NULL)
            rows_add_secondary(rows, primary, keys + i, end - i);
    }
}

int32_t
mrd_pf_rows_stride(const mrd_pf_rows *rows, const mrd_row *row)
{
    uint32_t siblings = rows->v[row->parent].children + 2;
    uint32_t stride = INT32_MAX / siblings;

    return stride > 16384 ? 16384 : stride < 1 ? 1 : (int32_t) stride;
}

/* Writes the name of the root row: the job's name if all processes have the same job, else the kind
 * of the profile. */
static void
name_root(const mrd_pf_rows *rows, mrd_buf *to)
{
    const mrd_catalog *cat = rows->catalog;
    mrd_sid job = MRD_SID_EMPTY;
    size_t n_profiles;
    const mrd_devprofile *profiles = mrd_catalog_devprofiles(cat, &n_profiles);

    if (rows->profile != 0) {
        mrd_str name = rows->profile < n_profiles
                           ? mrd_catalog_text(cat, profiles[rows->profile].name)
                           : MRD_STR("");

        mrd_buf_text(to, "device profile ");
        if (name.len > 0)
            mrd_buf_str(to, name);
        else
            mrd_buf_u64(to, rows->profile);
        return;
    }
    for (size_t i = 0; i < mrd_catalog_processes(cat); i++) {
        const mrd_process *process = mrd_catalog_borrow_process(cat, (mrd_proc_id) i);

        if (process->profile != 0 || process->job == MRD_SID_EMPTY || process->job == job)
            continue;
        if (job != MRD_SID_EMPTY) {
            job = MRD_SID_EMPTY;
            break;
        }
        job = process->job;
    }
    if (job != MRD_SID_EMPTY) {
        mrd_buf_text(to, "job ");
        mrd_buf_str(to, mrd_catalog_text(cat, job));
    } else {
        mrd_buf_text(to, "system profile");
    }
}

/* Returns the process of a primary group that consists of one process, otherwise NULL. */
static const mrd_process *
primary_process(const mrd_pf_rows *rows, const mrd_row *row)
{
    const mrd_track *track = mrd_catalog_borrow_track(rows->catalog, row->track);

    for (size_t i = 0; i < rows->primary->n; i++) {
        if (rows->primary->field[i] == MRD_GROUP_PROCESS)
            return mrd_catalog_borrow_process(rows->catalog, track->process);
    }
    return NULL;
}

/* Writes the name of a primary group: its label, with name and rank of the process if the group is
 * one process. */
static void
name_primary(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to)
{
    const mrd_process *process = primary_process(rows, row);

    mrd_group_label(rows->catalog, rows->primary, row->track, to);
    if (process == NULL || (process->flags & MRD_PROC_NODE))
        return;
    if (process->name != MRD_SID_EMPTY && !(process->flags & MRD_PROC_NO_PID)) {
        mrd_buf_byte(to, ' ');
        mrd_buf_str(to, mrd_catalog_text(rows->catalog, process->name));
    }
    if (process->rank != MRD_NONE) {
        mrd_buf_text(to, " (rank ");
        mrd_buf_i64(to, process->rank);
        mrd_buf_byte(to, ')');
    }
    if (process->flags & MRD_PROC_SIMULATED)
        mrd_buf_text(to, " (simulated)");
}

/* Returns true if the track's name already contains its thread, as in "thread 59812 (python3)", and
 * the group's label has only the thread, too. */
static bool
label_is_in_name(const mrd_pf_rows *rows, const mrd_track *track)
{
    char number[24];

    for (size_t i = 0; i < rows->secondary->n; i++) {
        mrd_group_field field = rows->secondary->field[i];

        if ((field == MRD_GROUP_LNC && track->lnc_idx != MRD_NONE) || field == MRD_GROUP_WORKER ||
            field == MRD_GROUP_INSTANCE || field == MRD_GROUP_PROCESS || field == MRD_GROUP_SIDE)
            return false;
    }
    snprintf(number, sizeof(number), "%" PRId64, track->thread_id);
    return track->thread_id != MRD_NONE &&
           strstr(mrd_catalog_text(rows->catalog, track->name).p, number) != NULL;
}

static void
say_number(mrd_buf *to, const char *what, int64_t v)
{
    if (v != MRD_NONE) {
        mrd_buf_text(to, what);
        mrd_buf_i64(to, v);
    }
}

/* Properties that can distinguish rows with equal names. They are appended to the names. */
enum {
    APART_DEVICE = 1,
    APART_NC = 2,
    APART_CORE = 4,
    APART_THREAD = 8,
    APART_WORKER = 16,
    APART_SOURCE = 32,
    APART_INSTANCE = 64,
    APART_PROCESS = 128,
};

static uint32_t
apart_by(const mrd_catalog *cat, const mrd_track *t, const mrd_track *u)
{
    const mrd_process *p = mrd_catalog_borrow_process(cat, t->process),
                      *q = mrd_catalog_borrow_process(cat, u->process);

    return (t->device_idx != u->device_idx ? APART_DEVICE : 0u) |
           (t->lnc_idx != u->lnc_idx ? APART_NC : 0u) |
           (t->pcore_idx != u->pcore_idx ? APART_CORE : 0u) |
           (t->thread_id != u->thread_id ? APART_THREAD : 0u) |
           (t->worker_gid != u->worker_gid ? APART_WORKER : 0u) |
           (t->source != u->source ? APART_SOURCE : 0u) |
           (p->instance_id != q->instance_id ? APART_INSTANCE : 0u) |
           (p->process_id != q->process_id ? APART_PROCESS : 0u);
}

static void
say_apart(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to)
{
    const mrd_track *track = mrd_catalog_borrow_track(rows->catalog, row->track);
    const mrd_process *process = mrd_catalog_borrow_process(rows->catalog, track->process);
    const struct {
        uint32_t bit;
        const char *what;
        int64_t v;
    } numbers[] = {
        { APART_DEVICE, " device ", track->device_idx },
        { APART_NC, " NC ", track->lnc_idx },
        { APART_CORE, " core ", track->pcore_idx },
        { APART_THREAD, " tid ", track->thread_id },
        { APART_WORKER, " worker ", track->worker_gid },
        { APART_PROCESS, " pid ", process->process_id },
    };

    for (size_t i = 0; i < MRD_COUNT(numbers); i++)
        if ((row->apart & numbers[i].bit) != 0)
            say_number(to, numbers[i].what, numbers[i].v);
    if ((row->apart & APART_SOURCE) != 0)
        mrd_buf_fmt(to, " %s", mrd_source_text(track->source));
    if ((row->apart & APART_INSTANCE) != 0)
        mrd_buf_fmt(to, " " MRD_STR_FMT,
                    MRD_STR_ARG(mrd_catalog_text(rows->catalog, process->instance_id)));
    if (row->twin != 0)
        mrd_buf_fmt(to, " #%" PRIu32, row->twin);
}

static void
name_track(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to)
{
    const mrd_track *track = mrd_catalog_borrow_track(rows->catalog, row->track);
    mrd_str name = mrd_catalog_text(rows->catalog, track->name);

    while (name.len > 0 && name.p[name.len - 1] == ' ')
        name.len--;
    if (row->labelled && !label_is_in_name(rows, track)) {
        mrd_group_label(rows->catalog, rows->secondary, row->track, to);
        mrd_buf_byte(to, ' ');
    }
    if (name.len > 0)
        mrd_buf_str(to, name);
    else
        mrd_buf_text(to, mrd_source_text(track->source));
    if (track->name == MRD_SID_EMPTY && track->pcore_idx != MRD_NONE) {
        mrd_buf_text(to, track->pcore_idx < 10 ? " core 0" : " core ");
        mrd_buf_i64(to, track->pcore_idx);
    }
}

void
mrd_pf_rows_name(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to)
{
    switch (row->kind) {
    case MRD_ROW_ROOT:
        name_root(rows, to);
        break;
    case MRD_ROW_PRIMARY:
        name_primary(rows, row, to);
        break;
    case MRD_ROW_SECONDARY:
        mrd_group_label(rows->catalog, rows->secondary, row->track, to);
        break;
    case MRD_ROW_TRACK:
        name_track(rows, row, to);
        break;
    }
    if ((row->apart | row->twin) != 0)
        say_apart(rows, row, to);
}

static void
say_text(const mrd_catalog *cat, mrd_buf *to, const char *what, mrd_sid sid)
{
    if (sid != MRD_SID_EMPTY) {
        mrd_buf_text(to, what);
        mrd_buf_str(to, mrd_catalog_text(cat, sid));
    }
}

void
mrd_pf_rows_describe_process(const mrd_catalog *cat, const mrd_process *process, mrd_buf *to)
{
    say_text(cat, to, "instance_id ", process->instance_id);
    if (!(process->flags & (MRD_PROC_NODE | MRD_PROC_NO_PID)))
        say_number(to, ", process_id ", process->process_id);
    say_number(to, ", container pid ", process->container_pid);
    say_text(cat, to, ", name ", process->name);
    say_number(to, ", rank ", process->rank);
    say_number(to, " of ", process->world_size);
    say_number(to, ", worker_gid ", process->worker_gid);
    say_text(cat, to, ", job ", process->job);
    say_text(cat, to, ", pod ", process->pod);
    say_text(cat, to, ", labels ", process->labels);
    if (process->clock != 0) {
        size_t n;
        const mrd_clock_info *clocks = mrd_catalog_clocks(cat, &n);

        if (process->clock < n) {
            say_text(cat, to, ", clock ", clocks[process->clock].quality);
            if (clocks[process->clock].bound_ns >= 0)
                say_number(to, " within +/- ns ", clocks[process->clock].bound_ns);
        }
    }
    if (process->flags & MRD_PROC_SIMULATED)
        mrd_buf_text(to, ", SIMULATED hardware");
}

static void
describe_track(const mrd_pf_rows *rows, const mrd_track *track, mrd_buf *to)
{
    mrd_buf_text(to, "source ");
    mrd_buf_text(to, mrd_source_text(track->source));
    say_number(to, ", lnc_idx ", track->lnc_idx);
    say_number(to, ", pcore_idx ", track->pcore_idx);
    say_number(to, ", device_idx ", track->device_idx);
    say_number(to, ", thread_id ", track->thread_id);
    say_number(to, ", worker_gid ", track->worker_gid);
    say_text(rows->catalog, to, ", name ", track->name);
}

void
mrd_pf_rows_describe(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to)
{
    const mrd_process *process = row->kind == MRD_ROW_PRIMARY ? primary_process(rows, row) : NULL;

    if (row->kind == MRD_ROW_TRACK)
        describe_track(rows, mrd_catalog_borrow_track(rows->catalog, row->track), to);
    else if (process != NULL)
        mrd_pf_rows_describe_process(rows->catalog, process, to);
}

/* ---- Rows with equal names ---- */

/* A row and the hash of its name. Two rows count as equal in name if the hashes are equal. A
 * collision only makes both names longer than necessary. */
typedef struct {
    uint64_t name;
    uint32_t parent, row;
} named_row;

static int
by_name(const void *a, const void *b)
{
    const named_row *x = a, *y = b;

    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Makes the names of the sibling rows v[0] to v[n - 1] different. The first pass (`number` is
 * false) appends the properties in which the rows differ from the first one. The second pass
 * numbers the rows that still have equal names. */
static void
tell_apart(mrd_pf_rows *rows, const named_row *v, size_t n, bool number)
{
    uint32_t apart = 0;

    for (size_t i = 1; i < n; i++)
        apart |= apart_by(rows->catalog,
                          mrd_catalog_borrow_track(rows->catalog, rows->v[v[0].row].track),
                          mrd_catalog_borrow_track(rows->catalog, rows->v[v[i].row].track));
    for (size_t i = 0; i < n; i++) {
        mrd_row *row = &rows->v[v[i].row];

        if (number)
            row->twin = (uint32_t) i + 1;
        else if (row->kind == MRD_ROW_TRACK)
            row->apart = apart;
    }
}

static mrd_err
look_for_names(mrd_pf_rows *rows, named_row *row, bool number)
{
    mrd_buf name = { 0 };
    mrd_err err = MRD_OK;
    size_t n = rows->n;

    for (size_t i = 0; i < n && err == MRD_OK; i++) {
        name.len = 0;
        mrd_pf_rows_name(rows, &rows->v[i], &name);
        err = name.err;
        row[i] = (named_row){ mrd_hash64(name.p, name.len, 0), rows->v[i].parent, (uint32_t) i };
    }
    mrd_buf_fini(&name);
    if (err != MRD_OK)
        return err;
    /* without row 0, the root, which has no siblings */
    qsort(row + 1, n - 1, sizeof(*row), by_name);
    for (size_t i = 1, end; i < n; i = end) {
        for (end = i + 1;
             end < n && row[end].parent == row[i].parent && row[end].name == row[i].name;)
            end++;
        if (end > i + 1)
            tell_apart(rows, row + i, end - i, number);
    }
    return MRD_OK;
}

static mrd_err
tell_names_apart(mrd_pf_rows *rows)
{
    named_row *row = malloc(rows->n * sizeof(*row));
    mrd_err err = row == NULL ? MRD_NOMEM : look_for_names(rows, row, false);

    if (err == MRD_OK)
        err = look_for_names(rows, row, true);
    free(row);
    return err;
}

mrd_err
mrd_pf_rows_init(mrd_pf_rows *rows, const mrd_catalog *cat, uint32_t profile,
                 const mrd_sink_options *options)
{
    size_t count = 0, tracks = mrd_catalog_tracks(cat);
    row_key *keys = malloc((tracks + 1) * sizeof(*keys));

    *rows = (mrd_pf_rows){ .catalog = cat,
                           .primary = &options->primary,
                           .secondary = &options->secondary,
                           .profile = profile,
                           .tracks = tracks };
    rows->of_track = malloc((tracks + 1) * sizeof(*rows->of_track));
    if (keys == NULL || rows->of_track == NULL) {
        free(keys);
        return MRD_NOMEM;
    }
    memset(rows->of_track, 0xff, (tracks + 1) * sizeof(*rows->of_track));
    for (mrd_track_id id = 0; id < tracks; id++) {
        if (mrd_catalog_profile_of(cat, id) == profile)
            keys[count++] = (row_key){ .id = id };
    }
    rows_number_groups(rows, keys, count);
    qsort_r(keys, count, sizeof(*keys), by_row, rows);
    rows_build(rows, keys, count);
    free(keys);
    return rows->v == NULL ? MRD_NOMEM : tell_names_apart(rows);
}

void
mrd_pf_rows_fini(mrd_pf_rows *rows)
{
    free(rows->v);
    free(rows->of_track);
    *rows = (mrd_pf_rows){ 0 };
}
