/* Merges one session, or a part of it: reads the events from the session's journal, converts their
 * times to one clock, and writes them to the outputs. */
#include "aggregator/merge/merge_run_int.h"

#include "aggregator/core/common/text.h"
#include "aggregator/merge/merge_marks.h"
#include "aggregator/merge/merge_once.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/loss_cause.h"
#include "base/num.h"
#include "base/obj.h"
#include "base/vec.h"
#include "base/version.h"
#include "trace/sink/group.h"

/* ---- First pass: finding nodes, processes and tracks ---- */

static stream *
find_stream(const merge_part *part, int64_t process_id, unsigned clock, uint32_t boot)
{
    /* searched from the end, because successive batches often belong to the same stream */
    for (size_t i = part->n_streams; i-- > 0;) {
        stream *strm = part->streams[i];

        if (strm->process_id == process_id && strm->clock == clock && strm->boot == boot)
            return strm;
    }
    return NULL;
}

static mrd_cross_table *
part_cross(merge_part *part, unsigned clock, uint32_t boot)
{
    merge_cross *cross;

    for (size_t i = part->n_crosses; i-- > 0;)
        if (part->crosses[i]->clock == clock && part->crosses[i]->boot == boot)
            return &part->crosses[i]->table;
    if (!MRD_VEC_NEXT(part->crosses, part->n_crosses) ||
        (cross = calloc(1, sizeof(*cross))) == NULL)
        return NULL;
    cross->clock = clock;
    cross->boot = boot;
    part->crosses[part->n_crosses++] = cross;
    return &cross->table;
}

static stream *
part_stream(const plan *p, merge_part *part, int64_t process_id, unsigned clock, uint32_t boot)
{
    size_t which = 0;
    stream *strm;

    if ((strm = find_stream(part, process_id, clock, boot)) != NULL)
        return strm;
    if (!MRD_VEC_NEXT(part->streams, part->n_streams) || (strm = calloc(1, sizeof(*strm))) == NULL)
        return NULL;
    strm->process_id = process_id;
    strm->clock = clock;
    strm->boot = boot;
    /* mrd_merge_clocks_solve has added all boots of the journal, so the loop ends */
    while (part->clock.v[which].boot != boot)
        which++;
    strm->info = part->infos[which];
    strm->align = part->clock.v[which].align;
    strm->shown = p->times == MERGE_ALIGNED ? strm->align : part->walls[which];
    part->streams[part->n_streams++] = strm;
    return strm;
}

/* Adds a batch's clock readings to `table`. The agent made the last reading when it closed the
 * batch. *ret_sealed is the RAW time of this reading. No event of the batch is later. */
static mrd_err
cross_add(mrd_cross_table *table, const mrd_batch_info *info, int64_t *ret_sealed,
          uint64_t *ret_absurd)
{
    mrd_err err = MRD_OK;

    *ret_sealed = INT64_MAX;
    for (size_t i = 0; i < info->n_cross && err == MRD_OK; i++) {
        err = mrd_cross_table_add(table, info->cross[i].raw, info->cross[i].other,
                                  info->cross[i].bracket_ns);
        if (err == MRD_RANGE) { /* skips a reading with impossible values */
            *ret_absurd += 1;
            err = MRD_OK;
            continue;
        }
        if (*ret_sealed == INT64_MAX || info->cross[i].raw.ns > *ret_sealed)
            *ret_sealed = info->cross[i].raw.ns;
    }
    return err;
}

static mrd_err
cross_order(plan *p, const merge_part *part, mrd_cross_table *table)
{
    const char *node = part->node->instance_id;
    char text[MRD_DUR_TEXT];
    mrd_dur_ns half = MRD_MS / 2, step;

    if (mrd_cross_table_order(table) != MRD_OK)
        return MRD_NOMEM;
    /* If the clock was set several times, its steps had both signs. So only their size is shown. */
    step = table->n_eras > 2 ? mrd_sat_abs(table->step) : table->step;
    step += step < 0 ? -half : half; /* rounds to whole ms */
    mrd_dur_text(step / MRD_MS * MRD_MS, text);
    if (table->n_eras == 2)
        mrd_catalog_note(p->cat,
                         "the wall clock of %s was set by %s during the session: its stamps were "
                         "followed across it",
                         node, text);
    else if (table->n_eras > 2)
        mrd_catalog_note(p->cat,
                         "the wall clock of %s was set %zu times during the session, by up to %s: "
                         "its stamps were followed across them",
                         node, table->n_eras - 1, text);
    if (table->doubt > MRD_MS)
        mrd_catalog_note(p->cat,
                         "the wall clock of %s was moved during the session, by up to %s between "
                         "two readings: the bounds of its stamps say where",
                         node, mrd_dur_text(table->doubt / MRD_MS * MRD_MS, text));
    return MRD_OK;
}

/* Adds a note about events of a wall clock that no reading relates to RAW. They keep the wall
 * clock's times, without an error bound. */
static void
cross_missing(plan *p, const merge_part *part)
{
    uint64_t events = 0;

    for (size_t i = 0; i < part->n_streams; i++)
        if (part->streams[i]->cross != NULL && part->streams[i]->cross->n == 0)
            events += part->streams[i]->events;
    if (events > 0)
        mrd_catalog_note(p->cat,
                         "%s: %" PRIu64 " event%s stamped by the wall clock came without a reading "
                         "of both clocks: the time is what that clock said, and its bound is not "
                         "known",
                         part->node->instance_id, events, mrd_plural(events));
}

/* Splits streams whose wall clock was set during the session. Events are in order of time only
 * within an era, the time between two settings. So each era becomes a stream. These streams share
 * the table that relates the clock to RAW. */
static mrd_err
part_eras(merge_part *part)
{
    size_t plain = part->n_streams;

    for (size_t i = 0; i < plain; i++) {
        const mrd_cross_table *cross = part->streams[i]->cross;
        size_t eras = cross == NULL ? 0 : cross->n_eras;

        eras = eras < ERAS_MAX ? eras : ERAS_MAX;
        if (eras < 2)
            continue;
        for (size_t e = 1; e < eras; e++) {
            stream *strm;

            if (!MRD_VEC_NEXT(part->streams, part->n_streams) ||
                (strm = malloc(sizeof(*strm))) == NULL)
                return MRD_NOMEM;
            *strm = *part->streams[i];
            strm->era = e;
            part->streams[part->n_streams++] = strm;
        }
    }
    return MRD_OK;
}

/* Counts a batch as damaged, because its head cannot be read. Sets the type of its frame to 0, so
 * that all later steps skip the batch. */
static void
entry_bad(merge_part *part, mrd_journal_entry *entry, const mrd_why *why)
{
    if (part->bad.first.err == MRD_OK)
        part->bad.first = *why;
    part->bad_heads += entry->frame.events;
    part->bad.events += entry->frame.events;
    part->bad.batches++;
    entry->frame.type = 0;
}

/* Reads the heads of a node's batches. A head has tracks, names, the process and clock readings. */
static mrd_err
part_scan(plan *p, merge_part *part, mrd_why *why)
{
    mrd_batch_reader_of(p->reader, part->node->instance_id);
    if ((part->sealed = malloc((part->index.n + 1) * sizeof(*part->sealed))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    for (size_t i = 0; i < part->index.n; i++) {
        mrd_journal_entry *entry = &part->index.entries[i];
        mrd_batch_info info;
        mrd_why bad = { 0 };
        mrd_bytes body;
        mrd_frame frame;
        mrd_cross_table *cross = NULL;
        stream *strm;

        part->sealed[i] = INT64_MAX;
        if (entry->frame.type != MRD_FRAME_BATCH)
            continue;
        if (mrd_journal_read(&part->index, entry, true, &p->buf, &frame, &body, &bad) != MRD_OK ||
            mrd_batch_scan(p->reader, &frame, body, p->cat, &info, &bad) != MRD_OK) {
            /* not counted as damage, because running out of memory is no fault of the batch */
            if (bad.err == MRD_NOMEM)
                return mrd_why_set(why, MRD_NOMEM, 0, "merge");
            entry_bad(part, entry, &bad);
            continue;
        }
        part->events += info.events;
        part->damage.foreign += info.foreign;
        if ((strm = part_stream(p, part, frame.process_id, frame.clock, frame.boot)) == NULL ||
            (frame.clock != MRD__CLOCK_KIND__CLOCK_RAW &&
             ((cross = part_cross(part, frame.clock, frame.boot)) == NULL ||
              cross_add(cross, &info, &part->sealed[i], &part->absurd) != MRD_OK)))
            return mrd_why_set(why, MRD_NOMEM, 0, "merge");
        strm->cross = cross;
        strm->events += info.events;
        mrd_catalog_borrow_process(p->cat, info.process)->clock = strm->info;
    }
    for (size_t i = 0; i < part->n_crosses; i++)
        if (cross_order(p, part, &part->crosses[i]->table) != MRD_OK)
            return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    cross_missing(p, part);
    for (size_t i = 0; i < part->n_streams; i++) {
        part->streams[i]->sealed = part->sealed;
        part->streams[i]->latest = (mrd_ev_ns){ INT64_MIN };
    }
    if (part_eras(part) != MRD_OK)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    return MRD_OK;
}

/* Computes how many events and frames are missing: the manifest counts them, but the journal does
 * not have them. */
static void
part_gone(merge_part *part)
{
    uint64_t events = 0;

    for (size_t i = 0; i < part->index.n; i++) {
        if (part->index.entries[i].frame.type == MRD_FRAME_BATCH)
            events += part->index.entries[i].frame.events;
    }
    if (part->node->events > events)
        part->gone = part->node->events - events;
    if (part->node->frames > part->index.n)
        part->damage.frames = part->node->frames - part->index.n;
}

static void
part_input(plan *p, merge_part *part)
{
    mrd_input in = { .state = MRD_INPUT_OK, .bytes = part->index.bytes };
    char name[MRD_NODE_ID_MAX + 16];

    part_gone(part);

    snprintf(name, sizeof(name), "journal/%s", part->node->instance_id);
    in.path = mrd_catalog_intern(p->cat, name);
    in.format = mrd_catalog_intern(p->cat, "meridian journal");
    in.lost = part->node->dropped;
    part->input = mrd_catalog_add_input(p->cat, &in);
    if (part->node->message[0] != '\0')
        mrd_catalog_note(p->cat, "%s: %s", part->node->instance_id, part->node->message);
}

/* ---- Second pass: opening the sources of events ---- */

static mrd_err
source_put(plan *p, mrd_source *source, merge_part *part, stream *strm)
{
    size_t n = p->n_sources, sources = p->cap_sources, streams = sources, parts = sources;

    if (!MRD_VEC_ROOM(p->sources, n, sources, 1) || !MRD_VEC_ROOM(p->stream_of, n, streams, 1) ||
        !MRD_VEC_ROOM(p->part_of, n, parts, 1)) {
        source->close(source);
        return MRD_NOMEM;
    }
    p->cap_sources = sources; /* the arrays `stream_of` and `part_of` have the same capacity */
    p->stream_of[p->n_sources] = strm;
    p->part_of[p->n_sources] = part;
    p->sources[p->n_sources++] = source;
    return MRD_OK;
}

/* Converts the filter's start and end from session time to the RAW clock of the stream. If the
 * stream has another clock, the range is unlimited. */
static void
local_range(const stream *strm, const mrd_filter *filter, int64_t *ret_start, int64_t *ret_end)
{
    mrd_local_ns at;

    *ret_start = INT64_MIN;
    *ret_end = INT64_MAX;
    if (strm->clock != MRD__CLOCK_KIND__CLOCK_RAW || strm->align == NULL || filter == NULL)
        return;
    if (filter->start.ns != INT64_MIN &&
        mrd_align_unmap(strm->align, (mrd_sess_ns){ filter->start.ns }, &at))
        *ret_start = at.ns;
    if (filter->end.ns != INT64_MAX &&
        mrd_align_unmap(strm->align, (mrd_sess_ns){ filter->end.ns }, &at))
        *ret_end = at.ns;
}

/* Extends [p->first, p->last], the range of all times to write, by the times of the node's
 * batches. */
static void
range_note(plan *p, const merge_part *part)
{
    for (size_t i = 0; i < part->index.n; i++) {
        const mrd_frame *frame = &part->index.entries[i].frame;
        mrd_sess_ns first = { frame->first.ns }, last = { frame->last.ns };
        mrd_align_cursor cursor = { 0 };
        stream *strm;

        if (frame->type != MRD_FRAME_BATCH || frame->clock != MRD__CLOCK_KIND__CLOCK_RAW ||
            (strm = find_stream(part, frame->process_id, frame->clock, frame->boot)) == NULL)
            continue;
        if (strm->shown != NULL &&
            (!mrd_align_map(strm->shown, &cursor, (mrd_local_ns){ frame->first.ns }, &first,
                            NULL) ||
             !mrd_align_map(strm->shown, &cursor, (mrd_local_ns){ frame->last.ns }, &last, NULL)))
            continue;
        p->first = mrd_sess_min(first, p->first);
        p->last = mrd_sess_max(last, p->last);
    }
}

static mrd_err
part_sources(plan *p, merge_part *part, const mrd_filter *filter, mrd_why *why)
{
    for (size_t i = 0; i < part->n_streams; i++) {
        stream *strm = part->streams[i];
        mrd_journal_source_options options = { .index = &part->index,
                                               .process_id = strm->process_id,
                                               .clock = strm->clock,
                                               .boot = strm->boot,
                                               .key = p->n_sources,
                                               .bad = strm->era == 0 ? &part->bad : NULL,
                                               .instance_id = part->node->instance_id,
                                               .names_refused = p->names_refused,
                                               .codec = p->codec,
                                               .frame = &p->buf };
        mrd_source *raw, *mapped;
        mrd_err err;

        strm->check = p->check;
        local_range(strm, filter, &options.start.ns, &options.end.ns);
        if ((err = mrd_journal_source(&options, p->cat, &raw, why)) != MRD_OK ||
            (err = mrd_merge_tap(p, strm, raw, &raw, why)) != MRD_OK ||
            (err = mrd_map_open(raw, mrd_merge_map_times, strm, &mapped, why)) != MRD_OK)
            return err;
        mapped->key = p->n_sources;
        if ((err = source_put(p, mapped, part, strm)) != MRD_OK)
            return mrd_why_set(why, err, 0, "merge");
    }
    return MRD_OK;
}

/* Marks the node's data as incomplete if a damaged spool of the node lost events. Losses for other
 * causes, such as a configured limit, do not count as damage. */
static void
part_spool(plan *p, const merge_part *part)
{
    uint64_t lost = 0;
    size_t n;
    mrd_input *input = &mrd_catalog_inputs(p->cat, &n)[part->input];
    char text[MRD_TEXT_MAX];

    for (size_t i = 0; i < part->node->n_gaps; i++)
        if (mrd_drop_of(mrd_str_of(part->node->causes[part->node->gaps[i].cause])) ==
            MRD_DROP_DAMAGED)
            lost += part->node->gaps[i].count;
    if (lost == 0)
        return;
    snprintf(text, sizeof(text),
             "%" PRIu64
             " events were lost with the node's spool, which was cut or removed while no "
             "agent ran (spool-damaged)",
             lost);
    input->state = MRD_INPUT_INCOMPLETE;
    input->error = mrd_catalog_intern(p->cat, text);
}

/* Opens a source of loss events: the losses and pauses in the manifest. Their times are in the RAW
 * clock of the node's last boot. */
static mrd_err
part_marks(plan *p, merge_part *part, mrd_why *why)
{
    const mrd_boot_clock *clock = part->clock.n == 0 ? NULL : &part->clock.v[part->clock.n - 1];
    mrd_source *raw = NULL, *mapped;
    size_t count = 0;
    mrd_err err;

    if (part->node->n_gaps + part->node->n_pauses == 0 || clock == NULL)
        return MRD_OK;
    part_spool(p, part);
    err = mrd_merge_marks_open(&(mrd_merge_marks_of){ .node = part->node,
                                                      .index = &part->index,
                                                      .sealed = part->sealed,
                                                      .boot = clock->boot,
                                                      .clock = part->infos[part->clock.n - 1] },
                               p->cat, &raw, &count, why);
    if (err != MRD_OK || raw == NULL)
        return err;
    part->marks = (stream){ .clock = MRD__CLOCK_KIND__CLOCK_RAW,
                            .boot = clock->boot,
                            .align = clock->align,
                            .shown = p->times == MERGE_ALIGNED ? clock->align
                                                               : part->walls[part->clock.n - 1],
                            .latest = { INT64_MIN },
                            .events = count };
    if ((err = mrd_merge_tap(p, &part->marks, raw, &raw, why)) != MRD_OK ||
        (err = mrd_map_open(raw, mrd_merge_map_times, &part->marks, &mapped, why)) != MRD_OK)
        return err;
    mapped->key = p->n_sources;
    if ((err = source_put(p, mapped, part, &part->marks)) != MRD_OK)
        return mrd_why_set(why, err, 0, "merge");
    return MRD_OK;
}

/* ---- Planning the whole merge ---- */

/* Reads the index of a node's journal, and computes the node's clock tables. */
static mrd_err
plan_node(plan *p, merge_part *part, mrd_why *why)
{
    char *dir = NULL;
    mrd_err err;

    if (asprintf(&dir, "%s/journal/%s", p->in->dir, part->node->instance_id) < 0)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    err = mrd_journal_scan(dir, &part->index, why);
    free(dir);
    return err != MRD_OK
               ? err
               : mrd_merge_clocks_solve(p->in, part->node, &part->index, p->cat, &part->clock, why);
}

static mrd_err
plan_tie(plan *p, const mrd_filter *filter, mrd_why *why)
{
    bool all = filter == NULL || filter->instances.n == 0;
    mrd_node_clock **clocks = calloc(p->n_parts + 1, sizeof(mrd_node_clock *));
    mrd_err err;

    if (clocks == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    for (size_t i = 0; i < p->n_parts; i++)
        clocks[i] = &p->parts[i].clock;
    err = mrd_merge_clocks_link(p->in, all, clocks, p->n_parts, p->cat, &p->timeline, why);
    free(clocks);
    if (err == MRD_OK && filter == NULL && p->timeline.n > 1)
        /* errors are ignored, because a merge of a slice can compute the timeline again */
        (void) mrd_timeline_save(&p->timeline, p->in->dir, NULL);
    return err;
}

/* Reports how often a placeholder replaced a name because the node had too many different names.
 * The limit per node leaves space for the names of other nodes. */
static void
part_names(plan *p, merge_part *part, uint64_t refused)
{
    size_t n;
    mrd_input *input;
    mrd_buf text = { 0 };

    if (refused == 0)
        return;
    input = &mrd_catalog_inputs(p->cat, &n)[part->input];
    mrd_buf_fmt(&text,
                "%" PRIu64
                " time%s a name of a batch stands as '(too many distinct names)': a node "
                "may have %zu MiB of them, 64 bytes for each included",
                refused, mrd_plural(refused), MRD_STRTAB_INPUT >> 20);
    input->state = MRD_INPUT_INCOMPLETE;
    input->error = mrd_catalog_intern(p->cat, mrd_buf_cstr(&text));
    mrd_catalog_note(p->cat, "%s: %s", part->node->instance_id, mrd_buf_cstr(&text));
    mrd_buf_fini(&text);
}

static mrd_err
plan_part(plan *p, merge_part *part, mrd_why *why)
{
    mrd_err err = mrd_merge_part_clocks(p, part, why);
    uint64_t refused;

    if (err != MRD_OK)
        return err;
    part_input(p, part);
    refused = mrd_strtab_allow(mrd_catalog_strings(p->cat), MRD_STRTAB_INPUT);
    err = part_scan(p, part, why);
    (void) mrd_strtab_allow(mrd_catalog_strings(p->cat), MRD_STRTAB_ANY);
    if (err != MRD_OK)
        return err;
    part_names(p, part, mrd_strtab_refused(mrd_catalog_strings(p->cat)) - refused);
    range_note(p, part);
    return MRD_OK;
}

static void
plan_facts(plan *p)
{
    mrd_artifact artifact;

    mrd_catalog_set(p->cat, "meridian.version", MRD_RELEASE);
    if (*mrd_version_commit() != '\0')
        mrd_catalog_set(p->cat, "meridian.commit", mrd_version_commit());
    mrd_catalog_set(p->cat, "session.id", p->in->id);
    if (p->in->name[0] != '\0')
        mrd_catalog_set(p->cat, "session.name", p->in->name);
    if (p->in->simulated)
        mrd_catalog_set(p->cat, "simulated", "true");
    mrd_catalog_set(p->cat, "clock.times",
                    p->times == MERGE_ALIGNED ? "aligned: session time"
                    : p->times == MERGE_UTC   ? "utc: each node's own wall clock, not aligned"
                                            : "raw: each node's CLOCK_MONOTONIC_RAW, not aligned");
    for (size_t i = 0; i < p->in->n_artifacts; i++) {
        const mrd_listed_artifact *from = &p->in->artifacts[i];

        artifact = (mrd_artifact){ .path = mrd_catalog_intern(p->cat, from->name),
                                   .kind = mrd_catalog_intern(p->cat, from->kind),
                                   .size = from->size,
                                   .instance_id = mrd_catalog_intern(p->cat, from->instance_id),
                                   .process_id = from->process_id,
                                   .nc_idx = from->nc_idx };
        mrd_text_set(artifact.sha256, sizeof(artifact.sha256), from->sha256);
        mrd_catalog_add_artifact(p->cat, &artifact);
    }
}

static void
plan_fini(plan *p)
{
    for (size_t i = 0; i < p->n_sources; i++)
        p->sources[i]->close(p->sources[i]);
    for (size_t i = 0; i < p->n_parts; i++) {
        merge_part *part = &p->parts[i];

        for (size_t k = 0; k < part->n_streams; k++)
            free(part->streams[k]);
        free(part->streams);
        for (size_t k = 0; k < part->n_crosses; k++) {
            mrd_cross_table_fini(&part->crosses[k]->table);
            free(part->crosses[k]);
        }
        free(part->crosses);
        free(part->sealed);
        mrd_journal_index_fini(&part->index);
        for (size_t k = 0; k < part->clock.n && part->walls != NULL; k++)
            mrd_align_free(part->walls[k]);
        free(part->walls);
        free(part->infos);
        mrd_node_clock_fini(&part->clock);
    }
    mrd_merge_check_free(p->check);
    free(p->parts);
    free(p->sources);
    free(p->stream_of);
    free(p->part_of);
    mrd_batch_reader_free(p->reader);
    mrd_codec_free(p->codec);
    mrd_catalog_free(p->cat);
    mrd_buf_fini(&p->buf);
}

/* Marks all clocks as doubtful, because measurements contradict the error bounds. It is unknown
 * which of the clocks is wrong. */
static void
distrust_clocks(plan *p, uint64_t violations)
{
    size_t n;
    mrd_clock_info *clocks = mrd_catalog_clocks(p->cat, &n);

    if (violations == 0)
        return;
    for (size_t i = 1; i < n; i++)
        clocks[i].violations =
            violations > clocks[i].violations ? violations : clocks[i].violations;
    mrd_catalog_note(p->cat,
                     "%" PRIu64 " checks (frames on arrival, held-out packets, absolute time, "
                     "collectives, linked timelines) contradict the bounds of this session's "
                     "clocks: nothing is proven by them",
                     violations);
}

static mrd_err
plan_init(plan *p, const merge_input *in, const mrd_filter *filter, merge_times times, mrd_why *why)
{
    mrd_err err = MRD_OK;

    *p = (plan){ .in = in,
                 .times = times,
                 .window = MRD_FILTER_ALL,
                 .first = { INT64_MAX },
                 .last = { INT64_MIN } };
    if (filter != NULL) {
        p->window.start = filter->start;
        p->window.end = filter->end;
    }
    p->cat = mrd_catalog_new();
    p->codec = mrd_codec_new();
    p->reader = p->codec == NULL ? NULL : mrd_batch_reader_new(p->codec);
    p->parts = calloc(in->n_nodes + 1, sizeof(*p->parts));
    if (p->cat == NULL || p->reader == NULL || p->parts == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    plan_facts(p);
    for (size_t i = 0; i < in->n_nodes && err == MRD_OK; i++) {
        const merge_node *node = &in->nodes[i];

        if (filter != NULL && filter->instances.n > 0 &&
            !mrd_strlist_has(&filter->instances, mrd_str_of(node->instance_id)))
            continue;
        p->parts[p->n_parts].node = node;
        err = plan_node(p, &p->parts[p->n_parts++], why);
    }
    if (err == MRD_OK)
        err = plan_tie(p, filter, why);
    for (size_t i = 0; i < p->n_parts && err == MRD_OK; i++)
        err = plan_part(p, &p->parts[i], why);
    p->names_refused = mrd_strtab_refused(mrd_catalog_strings(p->cat)) > 0;
    distrust_clocks(p, in->violations);
    /* The check is created only here, because it looks up names. The catalog has all names only
     * after all nodes were read. */
    if (err == MRD_OK && filter == NULL && (p->check = mrd_merge_check_new(p->cat)) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "merge");
    for (size_t i = 0; i < p->n_parts && err == MRD_OK; i++)
        err = part_sources(p, &p->parts[i], filter, why);
    for (size_t i = 0; i < p->n_parts && err == MRD_OK; i++)
        err = part_marks(p, &p->parts[i], why);
    return err != MRD_OK ? err : mrd_catalog_err(p->cat);
}

static void
bad_source(void *self, uint64_t key, const mrd_why *why)
{
    plan *p = self;
    const stream *strm = p->stream_of[key];
    merge_part *part = p->part_of[key];

    p->starved = p->starved || why->err == MRD_NOMEM;
    if (strm->events > strm->before)
        part->cut += strm->events - strm->before;
    mrd_catalog_note(p->cat, "%s: the events of process %" PRId64 " end early: %s",
                     part->node->instance_id, strm->process_id, why->text);
}

/* ---- Reporting damage, after all data was read ---- */

/* Writes a message about damaged data of a node. The message is stored in the node's row of
 * inputs. */
static void
damage_message(const merge_part *part, uint64_t stored, mrd_buf *text)
{
    const mrd_damage *damage = &part->damage;

    mrd_buf_fmt(text, "%s: %" PRIu64 " of %" PRIu64 " stored events",
                part->index.refused->err == MRD_OK ? "the journal is damaged"
                                                   : "the journal cannot be read completely",
                damage->events, stored);
    mrd_buf_fmt(text, " and %" PRIu64 " frames cannot be read back", damage->frames);
    if (part->index.bad_bytes > 0)
        mrd_buf_fmt(text, ", %" PRIu64 " damaged bytes were passed over", part->index.bad_bytes);
    if (part->bad.first.err != MRD_OK)
        mrd_buf_fmt(text, " (first: %s)", part->bad.first.text);
    if (part->index.refused->err != MRD_OK)
        mrd_buf_fmt(text, ". %s. If that passes, merge the session again",
                    part->index.refused->text);
}

static void
part_account(plan *p, merge_part *part)
{
    mrd_damage *damage = &part->damage;
    size_t n;
    mrd_input *input = &mrd_catalog_inputs(p->cat, &n)[part->input];
    mrd_buf text = { 0 };

    damage->events = part->gone + part->bad.events + part->cut;
    damage->frames += part->bad.batches;
    input->dropped = damage->events;
    input->records = part->events + part->bad_heads + part->gone;
    input->events = input->records - damage->events;
    if (damage->events > 0 || damage->frames > 0 || part->index.bad_bytes > 0 ||
        part->index.refused->err != MRD_OK) {
        damage_message(part, input->records, &text);
        input->state = MRD_INPUT_INCOMPLETE;
        input->error = mrd_catalog_intern(p->cat, mrd_buf_cstr(&text));
        mrd_catalog_note(p->cat, "%s: %s", part->node->instance_id, mrd_buf_cstr(&text));
    }
    mrd_buf_fini(&text);
    if (part->absurd > 0)
        mrd_catalog_note(p->cat,
                         "%s: %" PRIu64 " readings of its clocks beside batches cannot be times: "
                         "they are not used",
                         part->node->instance_id, part->absurd);
    if (damage->foreign > 0)
        mrd_catalog_note(p->cat,
                         "%s: %" PRIu64 " of its batches claim to be of another node: they are "
                         "shown as of the node that sent them",
                         part->node->instance_id, damage->foreign);
    if (p->in->damage != NULL)
        p->in->damage[part->node - p->in->nodes] = *damage;
    if (p->in->refused != NULL && p->in->refused->err == MRD_OK)
        *p->in->refused = *part->index.refused;
}

/* Sets the verdict on the clocks, after the last event. The verdict has the results of the checks
 * with collectives, and of those with probes that the alignment did not use. */
static void
plan_verdict(plan *p, mrd_clock_verdict *verdict)
{
    *verdict = (mrd_clock_verdict){ .done = true,
                                    .link_violations = mrd_timeline_violations(&p->timeline) };
    if (p->timeline.n > 1)
        verdict->timeline = mrd_timeline_json(&p->timeline);
    for (size_t i = 0; i < p->n_parts; i++) {
        for (size_t k = 0; k < p->parts[i].clock.n; k++) {
            const mrd_boot_clock *clock = &p->parts[i].clock.v[k];
            size_t pairs, odd = mrd_boot_clock_disagreements(clock, &pairs);

            verdict->held_out += clock->checked;
            verdict->held_out_violations += clock->violations;
            verdict->absolute += pairs;
            verdict->absolute_violations += odd;
        }
    }
    verdict->some = mrd_merge_check_run(p->check, &verdict->collectives, verdict->message);
}

/* The source of all merged events. The exporter closes it before the outputs. It then adds messages
 * about missing data to the catalog, in time for the outputs. */
typedef struct {
    mrd_source base;
    mrd_source *inner;
    plan *p;
} ending;

static mrd_step
ending_many(mrd_source *self, const mrd_event **ret_events, size_t room, size_t *ret_n,
            mrd_why *why)
{
    ending *e = (ending *) self;
    mrd_step step = e->inner->many(e->inner, ret_events, room, ret_n, why);

    if (step != MRD_END || !e->p->starved)
        return step;
    mrd_why_set(why, MRD_NOMEM, 0, "merge");
    return MRD_BAD;
}

static mrd_step
ending_next(mrd_source *self, const mrd_event **ret_event, mrd_why *why)
{
    size_t n;

    return ending_many(self, ret_event, 1, &n, why);
}

static void
ending_close(mrd_source *self)
{
    ending *e = (ending *) self;

    e->inner->close(e->inner);
    for (size_t i = 0; i < e->p->n_parts; i++)
        part_account(e->p, &e->p->parts[i]);
    if (e->p->check != NULL)
        plan_verdict(e->p, &e->p->verdict);
    if (e->p->in->violations == 0)
        distrust_clocks(e->p, mrd_clock_verdict_violations(&e->p->verdict));
    free(e);
}

static mrd_err
plan_merge(plan *p, mrd_source **ret_source, mrd_why *why)
{
    ending *e = calloc(1, sizeof(*e));
    mrd_err err;

    if (e == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "merge");
    *e = (ending){ .base = { .next = ending_next, .many = ending_many, .close = ending_close },
                   .p = p };
    err = mrd_merge_open(p->sources, p->n_sources, bad_source, p, &e->inner, why);
    p->n_sources = 0; /* the merge owns the sources now, also after a failure */
    if (err != MRD_OK) {
        free(e);
        return err;
    }
    return mrd_merge_once_open(&e->base, ret_source, why);
}

mrd_err
mrd_merge_run(const merge_input *in, const mrd_merge_order *job, mrd_export_result *ret_result,
              mrd_clock_verdict *ret_verdict, mrd_why *why)
{
    const mrd_filter *filter = job->filter;
    merge_times times = job->times;
    mrd_sink_options options = { .show_flows = true,
                                 .identity = in->events <= MRD_SINK_IDENTITY_MAX,
                                 .split = job->split,
                                 .archive = job->archive,
                                 .primary = job->primary,
                                 .secondary = job->secondary,
                                 .wall_time = times != MERGE_RAW };
    mrd_filter rest = filter == NULL ? (mrd_filter) MRD_FILTER_ALL : *filter;
    mrd_source *merged = NULL;
    plan p;
    mrd_err err = plan_init(&p, in, filter, times, why);

    /* mrd_merge_tap has already dropped the events outside the window of session time. The events
     * now have times of another clock, so the outputs must not compare these times with the
     * window. */
    if (times != MERGE_ALIGNED) {
        rest.start = (mrd_ev_ns){ INT64_MIN };
        rest.end = (mrd_ev_ns){ INT64_MAX };
    }
    if (err == MRD_OK && filter != NULL)
        err = mrd_filter_check_present(filter, p.cat, why);
    if (err == MRD_OK && options.primary.n == 0)
        err = mrd_group_parse(MRD_STR("instance_id,process_id"), &options.primary, why);
    if (err == MRD_OK && options.secondary.n == 0)
        err = mrd_group_parse(MRD_STR("lnc_idx,thread_id"), &options.secondary, why);
    if (err == MRD_OK)
        err = plan_merge(&p, &merged, why);
    if (err == MRD_OK) {
        err = mrd_export_run(merged,
                             &(mrd_export_job){ .catalog = p.cat,
                                                .options = &options,
                                                .filter = filter == NULL ? NULL : &rest,
                                                .first = { p.first.ns },
                                                .last = { p.last.ns },
                                                .targets = job->targets,
                                                .n_targets = job->n_targets,
                                                .progress = job->progress,
                                                .self = job->self },
                             ret_result, why);
    } else {
        for (size_t i = 0; i < job->n_targets; i++)
            mrd_out_abort(job->targets[i].out);
    }
    if (err == MRD_OK && p.check != NULL && ret_verdict != NULL)
        *ret_verdict = p.verdict;
    else
        mrd_clock_verdict_fini(&p.verdict);
    if (err == MRD_NOMEM)
        mrd_why_set(why, err, 0, "merge"); /* gives each failed allocation the same message */
    plan_fini(&p);
    return err;
}
