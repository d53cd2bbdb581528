/* Tests the classification of spans on the tracks of devices (trace/analysis/device_work.h). The
 * arguments decide first, then the category, the name of the track, and the name of the span. */
#include "tests/check.h"
#include "trace/analysis/device_work.h"

typedef struct {
    const char *line, *category, *name;
    const char *key, *text; /* an argument; its value is the number 8 if text is NULL */
    mrd_kernel_class class;
} row;

#define CLASS(kind) MRD_CLASS_##kind

static const row rows[] = {
    { "stream 7", "kernel", "gemm", NULL, NULL, CLASS(UNKNOWN) },
    /* Arguments say more than names. */
    { "stream 7", "kernel", "SendRecv", "Collective name", "allreduce", CLASS(ALLREDUCE) },
    { "stream 7", "kernel", "gemm", "Collective name", "_allgather_base", CLASS(ALLGATHER) },
    { "stream 7", "kernel", "fast", "Collective name", "broadcast", CLASS(MESSAGE) },
    { "stream 7", "kernel", "fast", "Group size", NULL, CLASS(MESSAGE) },
    { "stream 7", "kernel", "vllm::cross_device_reduce", "In msg nelems", NULL, CLASS(ALLREDUCE) },
    { "stream 7", "kernel", "MatmulAllReduce", "Group size", NULL, CLASS(FUSED) },
    { "stream 7", NULL, "hcom_allReduce_", "Task Type", "COMMUNICATION", CLASS(ALLREDUCE) },
    { "HCCL", NULL, "vllm::cross_device_reduce", NULL, NULL, CLASS(ALLREDUCE) },
    { "stream 7", "kernel", "ReduceScatterX", "In msg nelems", NULL, CLASS(REDUCESCATTER) },
    { "stream 7", "kernel", "fast", "comms_id", NULL, CLASS(MESSAGE) },
    { "stream 7", "kernel", "fast", "Comms Id", NULL, CLASS(MESSAGE) },
    { "stream 7", NULL, "any", "memcpy_details", "kind_src:device", CLASS(COPY) },
    { "stream 7", NULL, "hcom_allReduce_", "Task Type", "AI_CORE", CLASS(ALLREDUCE) },
    { "stream 7", NULL, "x", "Task Type", "EVENT_WAIT", CLASS(NOTHING) },
    { "stream 7", NULL, "x", "Task Type", "NOTIFY_WAIT_SQE", CLASS(NOTHING) },
    { "stream 7", NULL, "x", "Task Type", "SDMA_SQE", CLASS(COPY) },
    { "XLA Ops", NULL, "reduce.4", "hlo_category", "non-fusion elementwise", CLASS(COMPUTE) },
    { "XLA Ops", NULL, "psum.4", "hlo_category", "all-reduce", CLASS(ALLREDUCE) },
    { "XLA Ops", NULL, "all-gather.4", "hlo_category", "async", CLASS(ALLGATHER) },
    { "XLA Ops", NULL, "copy-done.4", "hlo_category", "copy-done", CLASS(COPY) },
    { "stream 7", "kernel", "gemm", "grid", "[1, 1, 1]", CLASS(UNKNOWN) },
    /* Annotations and calls on a device's track are no work of the device, whatever their arguments
     * are. */
    { "stream 7", "gpu_user_annotation", "nccl:all_reduce", "Collective name", "allreduce",
      CLASS(NOTHING) },
    { "stream 7", "cpu_op", "aten::mm", NULL, NULL, CLASS(NOTHING) },
    { "stream 7", "cuda_sync", "Stream Sync", NULL, NULL, CLASS(NOTHING) },
    /* Categories and lines. */
    { "stream 7", "gpu_memcpy", "ncclDevKernel_x", NULL, NULL, CLASS(COPY) },
    { "stream 7", "gpu_memset", "fill", NULL, NULL, CLASS(COPY) },
    { "stream 7", "Memcpy", "x", NULL, NULL, CLASS(COPY) },
    { "stream 7", "collective_comm", "x", NULL, NULL, CLASS(MESSAGE) },
    { "stream 7", "collective_comm", "x_allreduce", NULL, NULL, CLASS(ALLREDUCE) },
    { "Stream #8(MemcpyD2D)", NULL, "x", NULL, NULL, CLASS(COPY) },
    { "GPU 0 Stream #8(MemcpyD2D)", NULL, "x", NULL, NULL, CLASS(COPY) },
    { "Stream #8(MemcpyD2D,MemcpyH2D)", NULL, "x", NULL, NULL, CLASS(COPY) },
    { "Stream #8(MemcpyD2D,Compute)", NULL, "x", NULL, NULL, CLASS(UNKNOWN) },
    { "Stream #8(Compute)", NULL, "ncclDevKernel_AllReduce", NULL, NULL, CLASS(ALLREDUCE) },
    { "Group 0 Communication", NULL, "allgather_x", NULL, NULL, CLASS(ALLGATHER) },
    { "HCCL", NULL, "x", NULL, NULL, CLASS(MESSAGE) },
    { "Communication Plane 3", NULL, "Notify_Wait", NULL, NULL, CLASS(NOTHING) },
    /* Names. */
    { NULL, NULL, "deep_ep::dispatch", NULL, NULL, CLASS(MESSAGE) },
    { NULL, "kernel", "at::native::reduce_kernel", NULL, NULL, CLASS(COMPUTE) },
};

static mrd_kernel_class
see(const row *r)
{
    mrd_catalog *cat = mrd_catalog_new();
    mrd_process process;
    mrd_track track;
    mrd_arg arg = { 0 };
    mrd_event ev = { .kind = MRD_SPAN, .dur_ns = 10, .args = &arg };
    mrd_device_work *work;
    mrd_kernel_class class;

    mrd_process_init(&process);
    mrd_track_init(&track, mrd_catalog_process(cat, &process), MRD_SRC_FRAMEWORK);
    track.device_idx = 3;
    track.name = r->line == NULL ? MRD_SID_EMPTY : mrd_catalog_intern(cat, r->line);
    ev.track = mrd_catalog_track(cat, &track);
    ev.name = mrd_catalog_intern(cat, r->name);
    ev.category = r->category == NULL ? MRD_SID_EMPTY : mrd_catalog_intern(cat, r->category);
    if (r->key != NULL) {
        arg.key = mrd_catalog_intern(cat, r->key);
        arg.type = r->text == NULL ? MRD_ARG_INT : MRD_ARG_TEXT;
        arg.v.i = 8;
        if (r->text != NULL) {
            arg.v.text = r->text;
            arg.len = (uint32_t) strlen(r->text) & MRD_ARG_TEXT_MAX;
        }
        ev.arg_count = 1;
    }
    work = mrd_device_work_new(cat, NULL);
    CHECK(mrd_device_work_on(work, ev.track) && !mrd_device_work_on(work, ev.track + 1));
    class = mrd_device_work_class(work, &ev);
    CHECK_ROW("asked again", mrd_device_work_class(work, &ev) == class);
    mrd_device_work_free(work);
    mrd_catalog_free(cat);
    return class;
}

TEST(what_spans_of_devices_are)
{
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name, see(&rows[i]) == rows[i].class);
}

TEST_MAIN()
