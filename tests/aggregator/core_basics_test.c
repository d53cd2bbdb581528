/* Tests helpers of the aggregator's core: checked texts and numbers, token buckets, the table of
 * stored files, unread rings, and the list of effects (what the core wants to be done). */
#include "aggregator/core/common/json.h"
#include "aggregator/core/common/text.h"
#include "base/buf.h"
#include "tests/aggregator/core_make.h"

/* ---- Texts and numbers ---- */

TEST(a_text_is_cut_to_its_room)
{
    char to[6];

    mrd_text_set(to, sizeof(to), "12345");
    CHECK_TEXT(to, "12345");
    mrd_text_set(to, sizeof(to), "abcdefgh");
    CHECK_TEXT(to, "abcde");
    mrd_text_set(to, sizeof(to), "x");
    CHECK_TEXT(to, "x");
    mrd_text_set(to, sizeof(to), "");
    CHECK_TEXT(to, "");
    mrd_text_set(to, sizeof(to), "12345");
    mrd_text_set(to, sizeof(to), NULL);
    CHECK_TEXT(to, "");
}

TEST(what_cannot_be_a_time_is_none)
{
    static const int64_t most = (1LL << 62) - 1;

    CHECK_INT(mrd_time_checked(most), most);
    CHECK_INT(mrd_time_checked(-most), -most);
    CHECK_INT(mrd_time_checked(most + 1), 0);
    CHECK_INT(mrd_time_checked(-most - 1), 0);
    CHECK_INT(mrd_time_checked(INT64_MAX), 0);
    CHECK_INT(mrd_time_checked(INT64_MIN), 0);
    CHECK_INT(mrd_time_checked(1LL << 61), 1LL << 61);
    CHECK_INT(mrd_time_checked(1), 1);
    CHECK_INT(mrd_time_checked(-1), -1);
    CHECK_INT(mrd_count_checked(MRD_COUNT_MAX - 1), MRD_COUNT_MAX - 1);
    CHECK_INT(mrd_count_checked(MRD_COUNT_MAX), MRD_COUNT_MAX);
    CHECK_INT(mrd_count_checked(UINT64_MAX), MRD_COUNT_MAX);
    CHECK_INT(mrd_count_checked(7), 7);
}

TEST(which_of_some_names)
{
    static const char *const names[] = { "a", "b", "c" };

    CHECK_INT(mrd_text_index(names, 3, "a", 9), 0);
    CHECK_INT(mrd_text_index(names, 3, "b", 9), 1);
    CHECK_INT(mrd_text_index(names, 3, "c", 9), 2);
    CHECK_INT(mrd_text_index(names, 2, "c", 9), 9);
    CHECK_INT(mrd_text_index(names, 3, "", 9), 9);
}

TEST(the_first_of_a_name_keeps_its_place)
{
    mrd_map map = { 0 };

    CHECK_ERR("a", mrd_id_put(&map, "a", 5), MRD_OK);
    CHECK_ERR("b", mrd_id_put(&map, "b", 6), MRD_OK);
    CHECK_ERR("a again", mrd_id_put(&map, "a", 7), MRD_OK);
    CHECK_INT(mrd_map_get(&map, mrd_id_key("a")), 5);
    CHECK_INT(mrd_map_get(&map, mrd_id_key("b")), 6);
    CHECK(mrd_map_get(&map, mrd_id_key("c")) == MRD_MAP_NONE);
    mrd_map_fini(&map);
}

TEST(numbers_of_64_bits_in_json)
{
    static const uint64_t rows[] = { 0, 1, 15, 16, 0x123456789abcdef0, INT64_MAX, UINT64_MAX };
    mrd_json *o = mrd_json_new_object(), *n;
    mrd_buf text = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_json_put_hex(o, "id", rows[i]);
        CHECK_INT(strlen(mrd_json_str(o, "id", "")), 16);
        CHECK(mrd_json_get_hex(o, "id") == rows[i]);
    }
    CHECK_INT(mrd_json_get_hex(o, "none"), 0);
    mrd_json_free(o);
    n = mrd_json_new_count((uint64_t) INT64_MAX + 1);
    CHECK_INT(mrd_json_int_of(n), INT64_MAX);
    mrd_json_free(n);
    n = mrd_json_new_count(INT64_MAX - 1);
    CHECK_INT(mrd_json_int_of(n), INT64_MAX - 1);
    mrd_json_free(n);
    o = mrd_json_new_object();
    mrd_json_put_instant(o, "zero", 0);
    mrd_json_put_instant(o, "one", 1);
    mrd_json_write(o, false, &text);
    CHECK_TEXT(mrd_buf_cstr(&text), "{\"one\":\"1970-01-01T00:00:00.000000001Z\",\"one_ns\":1}");
    mrd_json_free(o);
    mrd_buf_reset(&text);
    o = mrd_jobid_json("job=7\nuser=u\n");
    mrd_json_write(o, false, &text);
    CHECK_TEXT(mrd_buf_cstr(&text), "{\"job\":\"7\",\"user\":\"u\"}");
    mrd_json_free(o);
    mrd_buf_fini(&text);
}

/* ---- The rate of an agent ---- */

static uint32_t
take(mrd_bucket *b, int64_t rate, int64_t at, uint64_t want)
{
    return mrd_bucket_take(b, rate, (mrd_local_ns){ at }, want);
}

/* The bucket holds the tokens of one second. A larger frame makes it negative, and the reported
 * wait is long enough to fill it again. */
TEST(a_bucket_fills_with_its_rate)
{
    mrd_bucket b = { .at = { MRD_SEC } };

    CHECK_INT(take(&b, 1000000, MRD_SEC, 1), 10); /* it was empty */
    CHECK_INT(b.bytes, 0);
    CHECK_INT(take(&b, 1000000, MRD_SEC + MRD_MS, 500000), 0); /* a frame larger than the content */
    CHECK_INT(b.bytes, 1000 - 500000);
    CHECK_INT(take(&b, 1000000, MRD_SEC + MRD_MS, 1), 499000 / 1001 + 10);
    CHECK_INT(b.bytes, -499000); /* nothing was taken */
    CHECK_INT(take(&b, 1000000, MRD_SEC + 501 * MRD_MS, 0), 0);
    CHECK_INT(b.bytes, 1000);
    CHECK_INT(take(&b, 1000000, 100 * MRD_SEC, 1), 0);
    CHECK_INT(b.bytes, 1000000 - 1);
    /* full, but not with the tokens of two seconds */
    CHECK_INT(take(&b, 1000000, 101 * MRD_SEC, 1000000), 0);
    CHECK_INT(b.bytes, 0);
    CHECK_INT(take(&b, 1000000, 101 * MRD_SEC, 0), 10); /* an empty bucket is not positive */
    /* a clock that runs backward adds no tokens */
    CHECK_INT(take(&b, 1000000, 100 * MRD_SEC, 1), 10);
    CHECK_INT(b.bytes, 0);
}

TEST(the_wait_is_the_debt_by_the_rate)
{
    mrd_bucket b = { .bytes = -100, .at = { MRD_SEC } };

    CHECK_INT(take(&b, 1000, MRD_SEC, 1), 60); /* 2 bytes per millisecond, plus 10 ms */
    b.bytes = -4000000000;
    CHECK_INT(take(&b, 1000000000, MRD_SEC, 1), 4009);
    b.bytes = -1000000;
    CHECK_INT(take(&b, 1000, MRD_SEC, 1), 5000); /* the maximum: the client then tries again */
    b.bytes = -1;
    CHECK_INT(take(&b, 0, MRD_SEC, 1), 0); /* no limit */
    CHECK_INT(take(&b, -1, MRD_SEC, 1), 0);
    CHECK_INT(b.bytes, -1);
}

TEST(limits_have_the_names_of_their_options)
{
    static const struct {
        mrd_limit_kind kind;
        const char *name;
    } rows[] = { { MRD_LIMIT_NONE, "none" },
                 { MRD_LIMIT_AGENT_RATE, "agent-rate" },
                 { MRD_LIMIT_TOTAL_RATE, "total-rate" },
                 { MRD_LIMIT_CONNECTIONS, "max-connections" },
                 { MRD_LIMIT_NODES, "max-nodes" },
                 { MRD_LIMIT_SESSIONS, "max-sessions" },
                 { MRD_LIMIT_OPEN_SESSIONS, "max-open-sessions" },
                 { MRD_LIMIT_SESSION_SIZE, "session-size" },
                 { MRD_LIMIT_DISK, "disk-reserve" },
                 { MRD_LIMIT_UPLOADS, "uploads" },
                 { MRD_LIMIT_EPOCHS, "epochs" },
                 { MRD_LIMIT_GAPS, "node-gaps" },
                 { MRD_LIMIT_KINDS, "unknown" } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_TEXT(mrd_limit_text(rows[i].kind), rows[i].name);
}

/* ---- Stored files ---- */

/* The SHA-256 of a test: all 'f', with another digit at position `at`. */
static const char *
sha(size_t at, char digit)
{
    static char hex[4][65];
    static unsigned next;
    char *to = hex[next++ % 4];

    memset(to, 'f', 64);
    to[64] = '\0';
    to[at] = digit;
    return to;
}

TEST(a_hash_is_64_lower_case_digits)
{
    char hex[66];

    memset(hex, 'a', 65);
    hex[65] = '\0';
    CHECK(!mrd_hash_is_valid(hex)); /* 65 */
    hex[64] = '\0';
    CHECK(mrd_hash_is_valid(hex));
    for (const char *c = "gA.-G /"; *c != '\0'; c++) {
        hex[63] = *c;
        CHECK(!mrd_hash_is_valid(hex));
    }
    hex[63] = '\0';
    CHECK(!mrd_hash_is_valid(hex)); /* 63 */
    CHECK(!mrd_hash_is_valid(""));
}

TEST(files_are_told_apart_by_their_hashes)
{
    static const size_t digits[] = { 0, 15, 16, 31, 32, 47 };
    mrd_stored_files t = { 0 };

    CHECK_ERR("one", mrd_stored_files_list(&t, sha(0, 'f')), MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(digits); i++) {
        CHECK(!mrd_stored_files_has(&t, sha(digits[i], 'e')));
        CHECK_ERR("other", mrd_stored_files_list(&t, sha(digits[i], 'e')), MRD_OK);
        CHECK(mrd_stored_files_has(&t, sha(digits[i], 'e')));
        CHECK_INT(t.n, i + 2);
    }
    CHECK(!mrd_stored_files_has(&t, "f"));
    mrd_stored_files_fini(&t);
}

/* For the size of the store each file counts once, as long as a session that is not deleted lists
 * it. */
TEST(a_file_counts_while_a_session_that_stays_lists_it)
{
    mrd_stored_files t = { 0 };

    for (char digit = '1'; digit <= '4'; digit++)
        CHECK_ERR("list", mrd_stored_files_list(&t, sha(3, digit)), MRD_OK);
    CHECK_ERR("twice", mrd_stored_files_list(&t, sha(3, '2')), MRD_OK);
    CHECK_INT(t.bytes, 0);
    mrd_stored_files_grown(&t, sha(3, '1'), 1);
    mrd_stored_files_grown(&t, sha(3, '2'), 20);
    mrd_stored_files_grown(&t, sha(3, '3'), 300);
    mrd_stored_files_grown(&t, sha(3, '3'), 200); /* shorter than assumed */
    mrd_stored_files_grown(&t, sha(3, '4'), 4000);
    mrd_stored_files_grown(&t, sha(3, '9'), 50000); /* not listed by any session */
    CHECK_INT(t.bytes, 4221);
    mrd_stored_files_retire(&t, sha(3, '2'));
    CHECK_INT(t.bytes, 4221); /* another lists it */
    mrd_stored_files_retire(&t, sha(3, '2'));
    CHECK_INT(t.bytes, 4201);
    mrd_stored_files_retire(&t, sha(3, '2')); /* not listed any more */
    CHECK_INT(t.bytes, 4201);
    mrd_stored_files_grown(&t, sha(3, '2'), 30);
    CHECK_INT(t.bytes, 4201);
    CHECK_ERR("again", mrd_stored_files_list(&t, sha(3, '2')), MRD_OK);
    CHECK_INT(t.bytes, 4231);
    mrd_stored_files_retire(&t, sha(3, '2'));
    for (int i = 0; i < 3; i++) {
        CHECK(mrd_stored_files_has(&t, sha(3, '2')));
        mrd_stored_files_unlist(&t, sha(3, '2'));
    }
    CHECK(!mrd_stored_files_has(&t, sha(3, '2')) && t.n == 3);
    mrd_stored_files_unlist(&t, sha(3, '2')); /* of none */
    CHECK(t.n == 3 && mrd_stored_files_has(&t, sha(3, '1')) &&
          mrd_stored_files_has(&t, sha(3, '3')));
    mrd_stored_files_grown(&t, sha(3, '4'), 4001); /* this file took the slot of the removed one */
    CHECK_INT(t.bytes, 4202);
    mrd_stored_files_retire(&t, sha(3, '4'));
    CHECK_INT(t.bytes, 201);
    mrd_stored_files_unlist(&t, sha(3, '4'));
    CHECK(t.n == 2 && !mrd_stored_files_has(&t, sha(3, '4')));
    mrd_stored_files_fini(&t);
}

/* ---- Rings and directories that a node's agent found but did not read ---- */

static mrd_unread
unread(uint32_t beyond, uint32_t held, uint32_t other, uint32_t directories)
{
    return (mrd_unread){ .rings_beyond = beyond,
                         .rings_held = held,
                         .rings_other_boot = other,
                         .directories = directories };
}

TEST(what_is_not_read_is_said_with_what_to_do)
{
    const struct {
        mrd_unread u;
        const char *text;
    } rows[] = {
        { unread(1, 0, 0, 0), "1 ring was not read, and the events in it are not counted: allow "
                              "the agent more open files (ulimit -n)" },
        { unread(2, 0, 0, 0), "2 rings were not read, and the events in it are not counted: allow "
                              "the agent more open files (ulimit -n)" },
        { unread(0, 1, 0, 0),
          "1 ring is read by another agent of the node: run one agent per node" },
        { unread(0, 3, 0, 0),
          "3 rings are read by another agent of the node: run one agent per node" },
        { unread(0, 0, 1, 0), "1 ring is of another boot and cannot be read: remove it" },
        { unread(0, 0, 0, 2), "2 capture directories were not read: of other users, beyond their "
                              "user's share, or on a file system that does not answer (the agent's "
                              "log names them)" },
        { unread(0, 1, 1, 0), "1 ring is read by another agent of the node: run one agent per "
                              "node; 1 ring is of another boot and cannot be read: remove it" },
        { { .trace_files = 1, .trace_file = "'a.json': truncated at byte 7" },
          "1 trace file was read in part or not at all, and the events in the rest are not "
          "counted: 'a.json': truncated at byte 7" },
        { { .trace_files = 2, .trace_file = "'b.json': truncated at byte 8" },
          "2 trace files were read in part or not at all, and the events in the rest are not "
          "counted, the last: 'b.json': truncated at byte 8" },
        { { .trace_files = 3, .trace_files_later = 2, .trace_file = "'c.json': cut" },
          "1 trace file was read in part or not at all, and the events in the rest are not "
          "counted: 'c.json': cut" },
        { { .trace_files = 2, .trace_files_later = 2, .trace_file = "'c.json': cut" }, "" },
        { { .trace_files = 2 },
          "2 trace files were read in part or not at all, and the events in the rest are not "
          "counted" },
        { unread(0, 0, 0, 0), "" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char text[MRD_WHY_MAX] = "x";
        mrd_json *o = mrd_json_new_object();

        CHECK_ROW(rows[i].text, mrd_unread_text(&rows[i].u, text) == (rows[i].text[0] != '\0'));
        CHECK_TEXT(text, rows[i].text);
        mrd_unread_put(&rows[i].u, o);
        CHECK_ROW(rows[i].text, (mrd_json_get(o, "unread") != NULL) == (rows[i].text[0] != '\0'));
        CHECK_TEXT(mrd_json_str(mrd_json_get(o, "unread"), "message", ""), rows[i].text);
        mrd_json_free(o);
    }
}

TEST(what_is_not_read_now_and_at_most)
{
    Mrd__Unread m = MRD__UNREAD__INIT;
    mrd_unread now = unread(9, 9, 9, 9), most = unread(2, 2, 2, 2);

    m.rings_beyond = 1;
    m.rings_held = 2;
    m.rings_other_boot = 3;
    m.directories = 4;
    mrd_unread_most(&most, &m);
    CHECK(most.rings_beyond == 2 && most.rings_held == 2 && most.directories == 4);
    CHECK_INT(most.rings_other_boot, 2); /* they belong to no session */
    m.rings_beyond = m.rings_held = 7;
    mrd_unread_most(&most, &m);
    CHECK(most.rings_beyond == 7 && most.rings_held == 7);
    m.trace_files = 2;
    m.trace_file = (char *) (uintptr_t) "'b.json': cut";
    mrd_unread_most(&most, &m);
    m.trace_files_later = 1;
    mrd_unread_most(&most, &m);
    CHECK_INT(most.trace_files_later, 1);
    m.trace_files_later = 0;
    m.trace_files = 1; /* as another run of the agent, or an older agent */
    m.trace_file = (char *) (uintptr_t) "'c.json': cut";
    mrd_unread_most(&most, &m);
    CHECK_INT(most.trace_files, 2);
    CHECK_INT(most.trace_files_later, 1);
    CHECK_TEXT(most.trace_file, "'b.json': cut");
    mrd_unread_most(&most, NULL);
    CHECK(most.rings_beyond == 7 && most.rings_held == 7 && most.directories == 4);
    mrd_unread_take(&now, &m);
    CHECK(now.rings_beyond == 7 && now.rings_held == 7 && now.rings_other_boot == 3 &&
          now.directories == 4);
    /* NULL means not reported, which counts as if everything was read */
    mrd_unread_take(&now, NULL);
    CHECK(now.rings_beyond == 0 && now.rings_held == 0 && now.rings_other_boot == 0 &&
          now.directories == 0);
}

TEST(what_was_not_read_is_loaded_as_far_as_it_is_a_number)
{
    mrd_json *o = mrd_json_new_object();
    mrd_unread u = unread(9, 9, 9, 9);

    mrd_json_set(o, "rings_beyond", mrd_json_new_int(-1));
    mrd_json_set(o, "rings_held", mrd_json_new_int((int64_t) UINT32_MAX + 1));
    mrd_json_set(o, "rings_other_boot", mrd_json_new_int(UINT32_MAX));
    mrd_json_set(o, "directories", mrd_json_new_int(1));
    mrd_unread_load(&u, o);
    CHECK(u.rings_beyond == 0 && u.rings_held == 0 && u.rings_other_boot == UINT32_MAX &&
          u.directories == 1);
    mrd_unread_load(&u, NULL);
    CHECK(u.rings_beyond == 0 && u.rings_held == 0 && u.rings_other_boot == 0 &&
          u.directories == 0);
    mrd_json_free(o);
}

/* ---- Effects ---- */

/* Log lines may fill only seven eighths of the list of effects, so that other effects always find
 * space. */
TEST(a_log_leaves_room_for_effects)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_effects *out = &c->out;
    unsigned logs = 0, others = 0;
    const mrd_effect *e;

    mrd_core_enter(c, core_at(1));
    while (out->n < MRD_EFFECTS_MAX - MRD_EFFECTS_MAX / 8)
        mrd_effects_log(out, MRD_LOG_INFO, "X", "line %u", out->n);
    mrd_effects_log(out, MRD_LOG_INFO, "X", "too many");
    CHECK_INT(out->n, MRD_EFFECTS_MAX - MRD_EFFECTS_MAX / 8 + 1);
    mrd_effects_log(out, MRD_LOG_INFO, "X", "too many");
    CHECK_INT(out->n, MRD_EFFECTS_MAX - MRD_EFFECTS_MAX / 8 + 1);
    while (mrd_effects_room(out, 1))
        mrd_effects_add(out, MRD_DO_SWEEP);
    CHECK_INT(out->n, MRD_EFFECTS_MAX);
    while ((e = mrd_core_effect(c)) != NULL) {
        logs += e->kind == MRD_DO_LOG;
        others += e->kind == MRD_DO_SWEEP;
    }
    CHECK(logs == MRD_EFFECTS_MAX - MRD_EFFECTS_MAX / 8 + 1 && logs + others == MRD_EFFECTS_MAX);
    mrd_core_free(c);
}

TEST(an_effect_has_nothing_of_the_one_before)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_effect *e;

    for (int turn = 0; turn < 2; turn++) {
        mrd_core_enter(c, core_at(turn));
        e = mrd_effects_add(&c->out, MRD_DO_HEARTBEAT);
        CHECK(e->kind == MRD_DO_HEARTBEAT && e->ticket == 0 && e->session == NULL &&
              e->value == 0 && e->n_directives == 0 && !e->has_estimate && e->text[0] == '\0');
        memset(e, 0xaa, sizeof(*e));
        e->kind = MRD_DO_HEARTBEAT;
        core_drain(c);
    }
    mrd_core_free(c);
}

TEST_MAIN()
