/* What a manifest says is known again after a restart of the aggregator. */
#include "tests/check.h"

#include "aggregator/hub.h"
#include "base/out.h"

static hub *
open_hub(void)
{
    hub *h = calloc(1, sizeof(*h));

    h->sync = MRD_SYNC_NONE;
    h->limits.max_sessions = h->limits.max_open_sessions = 10;
    CHECK_ERR("hub", hub_init(h, test_tmp(), NULL), MRD_OK);
    return h;
}

static void
close_hub(hub *h)
{
    hub_fini(h);
    free(h);
}

static hub_session *
create(hub *h)
{
    session_wish w = { .name = "s", .recorder = true };
    uint64_t id = 0;

    CHECK_ERR("create", session_create(h, &w, &id, NULL), MRD_OK);
    return hub_session_by_id(h, id);
}

static hub_part *
add_part(hub_session *s, const char *id, part_state state)
{
    hub_node n = { .hello_local_ns = 5 * MRD_SEC, .hello_wall_ns = 1000 * MRD_SEC };
    hub_part *p;

    snprintf(n.instance_id, sizeof(n.instance_id), "%s", id);
    p = hub_part_add(s, &n);
    p->state = state;
    return p;
}

/* Saves, and what another aggregator makes of it. */
static hub *
again(hub *h, hub_session *s)
{
    hub *next;

    CHECK_ERR("save", session_save(h, s->id, NULL), MRD_OK);
    next = open_hub();
    CHECK_ERR("recover", session_recover(next, NULL), MRD_OK);
    CHECK_INT(next->n_sessions, 1);
    CHECK_INT(next->unreadable, 0);
    return next;
}

static char *
text_of(mrd_json *o)
{
    mrd_buf text = { 0 };
    char *copy;

    mrd_json_write(o, false, &text);
    mrd_json_free(o);
    copy = mrd_str_dup((mrd_str){ (const char *) text.p, text.len });
    mrd_buf_fini(&text);
    return copy;
}

TEST(the_clocks_of_a_node)
{
    static const mrd_host_reading rows[] = {
        { .raw_ns = 1, .realtime_ns = 2, .bracket_ns = 3, .monotonic_ns = 4, .boottime_ns = 5 },
        { .raw_ns = 1LL << 60,
          .has_timex = true,
          .timex_status = 0x2001,
          .freq_ppb = -12345,
          .maxerror_ns = 77,
          .esterror_ns = 8,
          .tai_s = 37 },
        { .has_timex = true, .timex_state = 5 }, /* TIME_ERROR without STA_UNSYNC */
        { .has_timex = true, .timex_status = 0x40 },
        { .has_clockbound = true,
          .clockbound_status = 2,
          .clockbound_ns = 999,
          .clockbound_marker = UINT64_MAX },
        { .has_phc = true,
          .phc_name = "ptp0",
          .phc_ns = 1,
          .phc_raw_ns = 2,
          .phc_bracket_ns = 3,
          .phc_error_ns = -1,
          .has_vmclock = true,
          .vm_marker = 0xfedcba9876543210,
          .vm_status = 3,
          .vm_maxerror_ns = 4 },
    };
    hub *h = open_hub(), *next;
    hub_session *s = create(h);

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char name[16];
        hub_part *p;

        snprintf(name, sizeof(name), "i-%zu", i);
        p = add_part(s, name, PART_FLUSHED);
        p->has_reading = true;
        p->reading = rows[i];
    }
    add_part(s, "i-none", PART_FLUSHED);
    next = again(h, s);
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const hub_part *p = next->sessions[0]->parts[i];
        char *want = text_of(mrd_host_reading_json(&rows[i]));
        char *got = text_of(mrd_host_reading_json(&p->reading));

        CHECK(p->has_reading);
        CHECK_TEXT(got, want);
        free(want);
        free(got);
    }
    CHECK(!next->sessions[0]->parts[MRD_COUNT(rows)]->has_reading);
    close_hub(next);
    close_hub(h);
}

TEST(who_is_missing_and_what_was_heard)
{
    hub *h = open_hub(), *next;
    hub_session *s = create(h);
    hub_part *a = add_part(s, "i-a", PART_RECORDING), *b = add_part(s, "i-b", PART_RECORDING);
    hub_part *c = add_part(s, "i-c", PART_MISSING), *d = add_part(s, "i-d", PART_REFUSED);
    const hub_session *t;

    s->state = SESSION_RECORDING;
    s->triggers = calloc(2, sizeof(*s->triggers));
    s->n_triggers = 2;
    for (size_t i = 0; i < 2; i++)
        s->triggers[i] = (hub_trigger){ .id = i + 1, .to_ns = 2000 * MRD_SEC, .sent = true };
    a->started_local_ns = b->started_local_ns = 6 * MRD_SEC; /* 1001 s of session time */
    a->counters.clock_lost = 3;
    c->err = MRD_NOTFOUND;
    d->err = MRD_TIMEOUT;
    control_heard(s, a, (const uint64_t[]){ 1, 2 }, 2);
    control_heard(s, a, (const uint64_t[]){ 9, 2 }, 2); /* again, and one of another session */
    control_heard(s, b, (const uint64_t[]){ 1 }, 1);
    next = again(h, s);
    t = next->sessions[0];
    CHECK_INT(t->triggers[0].answered, 2);
    CHECK_INT(t->triggers[1].answered, 1);
    CHECK(!part_missed(t, t->parts[0], 1) && part_missed(t, t->parts[1], 1));
    CHECK(!part_missed(t, t->parts[1], 0) && !part_missed(t, t->parts[2], 0));
    CHECK(t->parts[2]->state == PART_MISSING && t->parts[2]->err == MRD_NOTFOUND);
    CHECK(t->parts[3]->state == PART_REFUSED && t->parts[3]->err == MRD_TIMEOUT);
    CHECK_INT(t->parts[0]->counters.clock_lost, 3);
    close_hub(next);
    close_hub(h);
}

/* As many artifacts as a session may have: the manifest is larger than other documents may be. */
TEST(the_largest_list_of_artifacts)
{
    hub *h = open_hub(), *next;
    hub_session *s = create(h);

    s->artifacts = calloc(HUB_ARTIFACTS, sizeof(*s->artifacts));
    for (size_t i = 0; i < HUB_ARTIFACTS; i++) {
        hub_artifact *a = &s->artifacts[s->n_artifacts++];

        *a = (hub_artifact){ .size = i, .process_id = 1000000 + (int64_t) i, .complete = true };
        snprintf(a->sha256, sizeof(a->sha256), "%08zx%056d", i, 0);
        snprintf(a->name, sizeof(a->name), "a/folder/of/a/name/profile_nc_%zu_session_%zu.ntff", i,
                 i);
        snprintf(a->kind, sizeof(a->kind), "NTFF");
        snprintf(a->instance_id, sizeof(a->instance_id), "i-0123456789abcdef0");
        CHECK_ERR("list", keep_list(h, a->sha256), MRD_OK);
    }
    next = again(h, s);
    CHECK_INT(next->n_sessions == 1 ? next->sessions[0]->n_artifacts : 0, HUB_ARTIFACTS);
    CHECK_INT(next->n_files, HUB_ARTIFACTS);
    close_hub(next);
    close_hub(h);
}

/* One that cannot be read is left alone; artifacts stay while it is there. */
TEST(broken_manifests_are_left_alone)
{
    static const struct {
        const char *name, *text;
        unsigned sessions, unreadable;
    } rows[] = {
        { "empty", "", 0, 1 },
        { "no object", "[]", 0, 1 },
        { "newer", "{\"version\": 2}", 0, 1 },
        { "a node with a path", "{\"version\": 1, \"nodes\": [{\"instance_id\": \"../x\"}]}", 0,
          1 },
        { "a node twice",
          "{\"version\": 1, \"nodes\": [{\"instance_id\": \"a\"}, {\"instance_id\": \"a\"}]}", 0,
          1 },
        { "artifacts that climb",
          "{\"version\": 1, \"artifacts\": [{\"sha256\": \"x\"}, {\"sha256\": "
          "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\", \"name\": "
          "\"../../x\", \"instance_id\": \"i\"}]}",
          1, 0 },
        { "fine", "{\"version\": 1, \"state\": \"complete\"}", 1, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char path[200];
        hub *h;

        snprintf(path, sizeof(path), "%s/sessions/20260101-000000-0001/session.json", test_tmp());
        CHECK_ERR(rows[i].name,
                  mrd_write_file(
                      path, (mrd_bytes){ (const uint8_t *) rows[i].text, strlen(rows[i].text) },
                      0600, NULL),
                  MRD_OK);
        h = open_hub();
        CHECK_ERR(rows[i].name, session_recover(h, NULL), MRD_OK);
        CHECK_ROW(rows[i].name, h->n_sessions == rows[i].sessions);
        CHECK_ROW(rows[i].name, h->unreadable == rows[i].unreadable);
        CHECK_ROW(rows[i].name, h->n_sessions == 0 || h->sessions[0]->n_artifacts == 0);
        close_hub(h);
    }
}

/* A node may count anything: a manifest holds no negative number. */
TEST(counts_of_a_node_stay_positive)
{
    static const uint64_t rows[] = {
        0, 1, HUB_COUNT_MAX, INT64_MAX, (uint64_t) INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX
    };
    Mrd__Drop drop[2] = { MRD__DROP__INIT, MRD__DROP__INIT }, *drops[] = { &drop[0], &drop[1] };
    Mrd__Counters c = MRD__COUNTERS__INIT;
    char full[] = "ring-full", other[] = "other";

    c.drops = drops;
    c.n_drops = 2;
    drop[0].cause = full;
    drop[1].cause = other;
    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        hub_counters got = { 0 };

        c.begun = c.delivered = c.held = c.clock_frames_lost = rows[i];
        drop[0].count = drop[1].count = rows[i];
        hub_counters_take(&got, &c);
        hub_counters_add(&got, &got);
        CHECK(got.begun <= INT64_MAX && got.delivered <= INT64_MAX && got.held <= INT64_MAX);
        CHECK(hub_dropped(&got) <= INT64_MAX / 10000 && got.clock_lost <= INT64_MAX);
        if (rows[i] < 2)
            CHECK_INT(hub_dropped(&got), 4 * rows[i]);
    }
}

TEST_MAIN()
