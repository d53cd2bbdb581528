#include "base/metrics.h"

#include "tests/check.h"

static const char text_want[] = "# HELP a_bytes_total Bytes.\n"
                                "# TYPE a_bytes_total counter\n"
                                "a_bytes_total 7\n"
                                "# HELP b Things.\n"
                                "# TYPE b gauge\n"
                                "b{x=\"1\"} -3\n"
                                "# HELP c_seconds Long.\n"
                                "# TYPE c_seconds gauge\n"
                                "c_seconds 1.500000000\n"
                                "c_seconds -0.000000001\n";
static const char open_want[] = "# HELP a_bytes Bytes.\n"
                                "# TYPE a_bytes counter\n"
                                "# UNIT a_bytes bytes\n"
                                "a_bytes_total 7\n"
                                "# HELP b Things.\n"
                                "# TYPE b gauge\n"
                                "b{x=\"1\"} -3\n"
                                "# HELP c_seconds Long.\n"
                                "# TYPE c_seconds gauge\n"
                                "# UNIT c_seconds seconds\n"
                                "c_seconds 1.500000000\n"
                                "c_seconds -0.000000001\n"
                                "# EOF\n";

TEST(both_formats)
{
    for (int open = 0; open < 2; open++) {
        mrd_buf to = { 0 };
        mrd_metrics_text x;

        mrd_metrics_text_begin(&x, &to, open);
        mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "a_bytes_total", "Bytes.", 7);
        mrd_metrics_text_family(&x, MRD_METRICS_GAUGE, "b", "Things.");
        mrd_metrics_text_i64(&x, "x=\"1\"", -3);
        mrd_metrics_text_family(&x, MRD_METRICS_GAUGE, "c_seconds", "Long.");
        mrd_metrics_text_seconds(&x, NULL, 1500 * MRD_MS);
        mrd_metrics_text_seconds(&x, NULL, -1);
        mrd_metrics_text_end(&x);
        CHECK_TEXT(mrd_buf_cstr(&to), open ? open_want : text_want);
        mrd_buf_fini(&to);
    }
}

TEST(a_common_label_is_on_each_sample)
{
    mrd_buf to = { 0 };
    mrd_metrics_text x;
    const char *text;

    mrd_metrics_text_begin(&x, &to, false);
    x.common = "instance_id=\"i-1\"";
    mrd_metrics_text_one(&x, MRD_METRICS_COUNTER, "a_total", "Things.", 7);
    mrd_metrics_text_u64(&x, "cause=\"full\"", 2);
    mrd_metrics_text_process(&x, "meridian-agent");
    text = mrd_buf_cstr(&to);
    CHECK(strstr(text, "\na_total{instance_id=\"i-1\"} 7\n") != NULL);
    CHECK(strstr(text, "\na_total{cause=\"full\",instance_id=\"i-1\"} 2\n") != NULL);
    CHECK(strstr(text, "\nmeridian_build_info{program=\"meridian-agent\",version=\"" MRD_RELEASE
                       "\",revision=\"") != NULL);
    CHECK(strstr(text, "\",instance_id=\"i-1\"} 1\n") != NULL);
    mrd_buf_fini(&to);
}

TEST(histograms_are_cumulative)
{
    mrd_metrics_text_hist h = { 0 };
    mrd_buf to = { 0 };
    mrd_metrics_text x;
    const char *text;

    mrd_metrics_text_hist_add(&h, 0);
    mrd_metrics_text_hist_add(&h, MRD_MS); /* the upper bound belongs to its bucket */
    mrd_metrics_text_hist_add(&h, 3 * MRD_MS);
    mrd_metrics_text_hist_add(&h, 60 * MRD_SEC);
    mrd_metrics_text_begin(&x, &to, false);
    mrd_metrics_text_hist_write(&x, "h_seconds", "Times.", &h);
    text = mrd_buf_cstr(&to);
    CHECK(strstr(text, "h_seconds_bucket{le=\"0.001\"} 2\n") != NULL);
    CHECK(strstr(text, "h_seconds_bucket{le=\"0.0025\"} 2\n") != NULL);
    CHECK(strstr(text, "h_seconds_bucket{le=\"0.005\"} 3\n") != NULL);
    CHECK(strstr(text, "h_seconds_bucket{le=\"10\"} 3\n") != NULL);
    CHECK(strstr(text, "h_seconds_bucket{le=\"+Inf\"} 4\n") != NULL);
    CHECK(strstr(text, "h_seconds_sum 60.004000000\nh_seconds_count 4\n") != NULL);
    mrd_buf_fini(&to);
}

TEST(which_format)
{
    static const struct {
        const char *accept;
        bool open;
    } rows[] = {
        { NULL, false },
        { "", false },
        { "*/*", false },
        { "application/openmetrics-text", true },
        { "Application/OpenMetrics-Text; version=1.0.0", true },
        { "application/openmetrics-text;q=0", false },
        { "text/plain;q=0.5,application/openmetrics-text;q=0.4", false },
        { "text/plain;q=0.4,application/openmetrics-text;q=0.4", true },
        { "text/*,application/openmetrics-text;q=0.9", false },
        { "application/openmetrics-text;version=1.0.0;q=0.75,*/*;q=0.1", true },
        { "application/openmetrics-text;q=x", false },
        { "application/openmetrics-textual", false },
        { ",,;q=1,", false },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].accept == NULL ? "no field" : rows[i].accept,
                  mrd_metrics_text_wants_open(rows[i].accept) == rows[i].open);
}

TEST_MAIN()
