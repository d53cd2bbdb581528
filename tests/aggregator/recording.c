#include "tests/aggregator/recording.h"

#include "tests/timesync/rng.h"
#include "trace/sink/sinks.h"

recording
recording_new(const char *name)
{
    recording r = { .n = 0 };

    snprintf(r.dir, sizeof(r.dir), "%s/%s", test_tmp(), name);
    return r;
}

mrd_frame
frame_of(part *p, uint8_t type)
{
    return (mrd_frame){ .type = type,
                        .agent = mrd_agent_key(mrd_str_of(p->id)),
                        .epoch = 1,
                        .session = 3,
                        .seq = p->seq++,
                        .boot = mrd_boot_key(mrd_str_of(p->boot)) };
}

/* RAW of the aggregator at session time 0, so that session time and RAW differ */
#define RAW_ZERO (5000 * MRD_SEC)

/* Fills the aggregator's own clock readings for the time of this part. */
static void
fill_server(const part *p, Mrd__ClockData *data, Mrd__ClockReading v[READINGS],
            Mrd__ClockTimex timex[READINGS], Mrd__ClockReading *list[READINGS])
{
    rng r = rng_new(rng_seed() + (uint64_t) p->lie);

    data->session_offset_ns = ZERO - RAW_ZERO + p->lie;
    data->aggregator = list;
    for (int i = 0; i < READINGS; i++) {
        int64_t at = p->begin * MRD_SEC + (p->end - p->begin) * MRD_SEC * i / READINGS;

        mrd__clock_reading__init(&v[i]);
        mrd__clock_timex__init(&timex[i]);
        v[i].raw_ns = RAW_ZERO + at;
        v[i].realtime_ns =
            ZERO + at + (int64_t) rng_between(&r, (double) -p->utc_bound, (double) p->utc_bound);
        v[i].timex = &timex[i];
        timex[i].maxerror_ns = p->utc_bound;
        list[data->n_aggregator++] = &v[i];
    }
}

#define PHC_ERROR (2 * MRD_US)

/* Fills readings of a PTP clock at both ends, which shows session time plus five hours. */
static void
fill_phc(const part *p, Mrd__ClockReading v[READINGS], Mrd__ClockPhc phc[READINGS],
         Mrd__ClockReading *list[READINGS], int64_t local_minus_session, int64_t off, int64_t later)
{
    static char name[] = "ptp0";
    rng r = rng_new(rng_seed() + (uint64_t) later);

    for (int i = 0; i < READINGS; i++) {
        int64_t at =
            later + ZERO + p->begin * MRD_SEC + (p->end - p->begin) * MRD_SEC * i / READINGS;

        mrd__clock_reading__init(&v[i]);
        mrd__clock_phc__init(&phc[i]);
        v[i].raw_ns = phc[i].raw_ns = at + local_minus_session;
        v[i].phc = &phc[i];
        phc[i].name = name;
        phc[i].phc_ns = at + 5 * 3600 * MRD_SEC + off +
                        (int64_t) rng_between(&r, -(double) PHC_ERROR, PHC_ERROR);
        phc[i].error_ns = PHC_ERROR;
        list[i] = &v[i];
    }
}

void
put_probes(part *p, mrd_journal *j)
{
    rng r = rng_new(rng_seed());
    Mrd__ClockData data = MRD__CLOCK_DATA__INIT;
    mrd_frame f = frame_of(p, MRD_FRAME_CLOCK_DATA);
    mrd_buf joined = { 0 }, wire = { 0 };
    Mrd__ClockReading own[READINGS], *list[READINGS];
    Mrd__ClockReading here[READINGS], *here_list[READINGS];
    Mrd__ClockTimex timex[READINGS];
    Mrd__ClockPhc phc[2][READINGS];
    char incarnation[16];

    snprintf(incarnation, sizeof(incarnation), "%s", p->incarnation == NULL ? "" : p->incarnation);
    data.reference = incarnation;
    if (p->utc_bound > 0)
        fill_server(p, &data, own, timex, list);
    if (p->phc) {
        fill_phc(p, own, phc[0], list, RAW_ZERO - ZERO, 0, 0);
        fill_phc(p, here, phc[1], here_list, -p->offset, p->phc_lie, MRD_SEC);
        data.session_offset_ns = ZERO - RAW_ZERO;
        data.aggregator = list;
        data.readings = here_list;
        data.n_aggregator = data.n_readings = READINGS;
    }
    for (uint32_t k = 0; k < 2 * PAIRS; k++) {
        int64_t sess = ZERO + (int64_t) (k / 2) * MRD_SEC + (k % 2) * 15000;
        int64_t up = 30000 + (int64_t) rng_between(&r, 0, 5000);
        int64_t down = 30000 + (int64_t) rng_between(&r, 0, 5000);
        mrd_probe probe = { .id = { f.agent, 1, k },
                            .a1 = sess - p->offset,
                            .r2 = sess + up + p->lie,
                            .r3 = sess + up + 10000 + p->lie,
                            .a4 = sess + up + 10000 + down - p->offset,
                            .e = 20,
                            .position = (uint8_t) (k % 2),
                            .source_up = MRD_STAMP_NNG,
                            .source_down = MRD_STAMP_NNG,
                            .up = true,
                            .down = true };

        probe.held_out = mrd_probe_held_out(probe.id);
        if (k / 2 >= p->begin && k / 2 < p->end)
            mrd_probe_encode(&probe, &joined);
    }
    data.joined = (ProtobufCBinaryData){ joined.len, joined.p };
    REQUIRE(mrd_msg_pack(&f, &data, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&joined);
    mrd_buf_fini(&wire);
}

void
put_collectives(part *p, mrd_journal *j)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_codec *codec = mrd_codec_new();
    mrd_frame f = frame_of(p, MRD_FRAME_BATCH);
    mrd_buf wire = { 0 };
    mrd_process proc;
    mrd_track track;
    mrd_batch *b;
    mrd_arg args[3] = { { .key = mrd_catalog_intern(cat, "gid"), .type = MRD_ARG_INT },
                        { .key = mrd_catalog_intern(cat, "op_id"), .type = MRD_ARG_INT },
                        { .key = mrd_catalog_intern(cat, "size"), .type = MRD_ARG_INT } };
    mrd_event ev = { .kind = MRD_SPAN, .args = args, .arg_count = 3 };

    mrd_process_init(&proc);
    proc.instance_id = mrd_catalog_intern(cat, p->id);
    proc.process_id = 4711;
    mrd_track_init(&track, mrd_catalog_process(cat, &proc),
                   p->mostly > 0 ? MRD_SRC_DEVICE : MRD_SRC_RUNTIME);
    track.lnc_idx = 0;
    ev.track = mrd_catalog_track(cat, &track);
    ev.name = mrd_catalog_intern(cat, "cc_running");
    args[0].v.i = 9;
    REQUIRE((b = mrd_batch_new(cat, track.process, 0, 0)) != NULL);
    for (int i = 0; i < COLLECTIVES + (int) p->more; i++) {
        int64_t last = ZERO + 10 * MRD_SEC + i * MRD_SEC;
        int64_t early = p->mostly > 0 && i % 4 != 0 ? p->mostly : p->early;

        if (10 + i < p->begin || 10 + i >= p->end)
            continue;
        args[1].v.i = i % 7;
        args[2].v.i = 1 << (i % 5);
        ev.ts = (mrd_ev_ns){ last - early - p->offset };
        ev.dur_ns = early + LATENCY;
        REQUIRE(mrd_batch_push(b, &ev) == MRD_OK);
    }
    REQUIRE(mrd_batch_encode(b, codec, MRD_CODEC_NONE, &f, &wire, NULL) == MRD_OK);
    REQUIRE(mrd_journal_append(j, &f, (mrd_bytes){ wire.p, wire.len }, NULL) == MRD_OK);
    mrd_buf_fini(&wire);
    mrd_batch_free(b);
    mrd_codec_free(codec);
    mrd_catalog_free(cat);
}

/* Adds the parts of one node, one per boot. */
void
add_node(recording *r, part *parts, size_t n)
{
    merge_node *node = &r->nodes[r->n++];
    mrd_journal *j = NULL;
    char dir[400];

    snprintf(dir, sizeof(dir), "%s/journal/%s", r->dir, parts[0].id);
    REQUIRE(mrd_journal_open(dir, mrd_str_of(parts[0].id), 3, &j, NULL) == MRD_OK);
    for (size_t i = 0; i < n; i++) {
        parts[i].seq = i * 2;
        put_probes(&parts[i], j);
        put_collectives(&parts[i], j);
    }
    REQUIRE(mrd_journal_close(j, NULL) == MRD_OK);
    snprintf(node->instance_id, sizeof(node->instance_id), "%s", parts[0].id);
    node->local = (mrd_local_ns){ ZERO - parts[0].offset };
    node->wall = (mrd_wall_ns){ ZERO + 7 * MRD_SEC }; /* the node's wall clock is wrong by 7 s */
}

mrd_export_result
merge_as(recording *r, const char *format, merge_times times, mrd_clock_verdict *ret_verdict)
{
    merge_input in = { .dir = r->dir, .id = "s", .nodes = r->nodes, .n_nodes = r->n };
    mrd_export_target target = { .ops = mrd_sink_find(mrd_str_of(format)) };
    mrd_export_result result = { 0 };
    char path[400];
    mrd_why why = { 0 };

    snprintf(path, sizeof(path), "%s/out.json", r->dir);
    CHECK_ERR("output", mrd_out_file(path, &target.out, &why), MRD_OK);
    CHECK_ERR(
        "merge",
        mrd_merge_run(&in, &(mrd_merge_order){ .times = times, .targets = &target, .n_targets = 1 },
                      &result, ret_verdict, &why),
        MRD_OK);
    return result;
}

mrd_export_result
merge(recording *r, merge_times times, mrd_clock_verdict *ret_verdict)
{
    return merge_as(r, "json", times, ret_verdict);
}

part
a_part(const char *id, int64_t offset)
{
    return (part){ .id = id, .boot = "one", .offset = offset, .end = PAIRS };
}

bool
file_has(const char *path, const char *text)
{
    FILE *f = fopen(path, "r");
    mrd_buf all = { 0 };
    bool found;
    int c;

    while (f != NULL && (c = getc(f)) != EOF)
        mrd_buf_byte(&all, (uint8_t) c);
    if (f != NULL)
        fclose(f);
    found = memmem(all.p, all.len, text, strlen(text)) != NULL;
    mrd_buf_fini(&all);
    return found;
}
