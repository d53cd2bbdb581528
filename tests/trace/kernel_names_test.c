/* Tests the classification of kernel names: kernels of communication libraries, kernels of
 * computation, and a user's own rules. */
#include "tests/check.h"
#include "tests/seed.h"
#include "trace/analysis/kernel_names.h"

#define CLASS(kind) MRD_CLASS_##kind

static const struct {
    const char *name;
    mrd_kernel_class class;
} names[] = {
    /* NCCL, RCCL, MSCCL, HCCL, oneCCL, NVSHMEM */
    { "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
      CLASS(ALLREDUCE) },
    { "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", CLASS(ALLGATHER) },
    { "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", CLASS(REDUCESCATTER) },
    { "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", CLASS(SENDRECV) },
    { "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", CLASS(MESSAGE) },
    { "ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", CLASS(MESSAGE) },
    { "nccldevkernel_allreduce_sum_f32_ring_ll", CLASS(ALLREDUCE) },
    { "ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(ncclSymkDevWorkArgs4K)", CLASS(ALLREDUCE) },
    { "ncclSymkDevKernel_ReduceScatter_RailA2A_LsaLD_sum_f16", CLASS(REDUCESCATTER) },
    { "ncclSymDevKernel_AllGather_STMC(ncclSymDevArgs)", CLASS(ALLGATHER) },
    { "void nccl_ep::internode_ll::dispatch<(bool)0,(int)7168>(...)", CLASS(MESSAGE) },
    { "nccl_ep_jit_ht_combine_kernel", CLASS(MESSAGE) },
    { "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)", CLASS(ALLREDUCE) },
    { "void mscclpp::executionKernel<__half, LL>(int)", CLASS(MESSAGE) },
    { "hcom_allReduce__964_0_1", CLASS(ALLREDUCE) },
    { "hcom_reduceScatter__063_1_1", CLASS(REDUCESCATTER) },
    { "hcom_alltoallv_", CLASS(ALLTOALL) },
    { "hcom_broadcast__275_2_1", CLASS(MESSAGE) },
    { "allreduceAicpuKernel", CLASS(ALLREDUCE) },
    { "ixcclAllReduceKernel", CLASS(ALLREDUCE) },
    { "aiv_all_reduce_910B_smalldata_bfloat16_t", CLASS(ALLREDUCE) },
    { "typeinfo name for allreduce_medium_kernel<sycl::half>", CLASS(ALLREDUCE) },
    { "oneccl_allreduce_pcie<half, Rt64_128_PCIE, RingTransmit>", CLASS(ALLREDUCE) },
    { "barrier_on_stream_kernel_threadgroup", CLASS(BARRIER) },
    { "void alltoall_on_stream_kernel_threadgroup<char>(int)", CLASS(ALLTOALL) },
    { "nvshmemi_transfer_rma_nbi", CLASS(MESSAGE) },
    { "rocshmem_reduce_on_stream_kernel<float>", CLASS(MESSAGE) },
    /* Servers */
    { "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, T*)",
      CLASS(ALLREDUCE) },
    { "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li2EEEvPNS_8RankDataE",
      CLASS(ALLREDUCE) },
    { "_ZN12_GLOBAL__N_126two_shot_all_reduce_kernelIfEEvPf", CLASS(ALLREDUCE) },
    { "void aiter::cross_device_reduce_1stage<bf16, 8>(int)", CLASS(ALLREDUCE) },
    { "aiter::allreduce_fusion_kernel_1stage", CLASS(ALLREDUCE) },
    { "void aiter::reduce_scatter_cross_device_store<float, 8>(int)", CLASS(REDUCESCATTER) },
    { "allgather_lastdim<__half, 4>", CLASS(ALLGATHER) },
    { "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(int)",
      CLASS(ALLREDUCE) },
    { "void (anonymous namespace)::all_reduce_one_shot_push_kernel<float, 8u, true>(int)",
      CLASS(ALLREDUCE) },
    { "void <unnamed>::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(int)",
      CLASS(ALLREDUCE) },
    { "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
      CLASS(ALLREDUCE) },
    { "void "
      "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::"
      "trtllm_"
      "allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8>(int)",
      CLASS(ALLREDUCE) },
    { "moefinalize_allreduce_fusion_kernel_oneshot_lamport", CLASS(ALLREDUCE) },
    { "oneShotAllReduceKernel", CLASS(ALLREDUCE) },
    { "moeA2ADispatchKernel(int const*)", CLASS(MESSAGE) },
    { "kuserbuffers_pushsend(int*, int*, int4*, int4*, int)", CLASS(MESSAGE) },
    /* Expert parallelism */
    { "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", CLASS(MESSAGE) },
    { "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int)", CLASS(MESSAGE) },
    { "void uccl::internode_ll::combine<true>(void*)", CLASS(MESSAGE) },
    { "hybrid_ep::dispatch_kernel<uint8_t>", CLASS(MESSAGE) },
    { "EpDispatchIntraNodeKernel_bf16", CLASS(MESSAGE) },
    { "EpCombineInterNodeKernel_fp8_ocp", CLASS(MESSAGE) },
    { "kernel_dispatch_token_intra_node", CLASS(MESSAGE) },
    { "aclnnMoeDistributeDispatch", CLASS(MESSAGE) },
    { "CamMoeCombineNormal", CLASS(MESSAGE) },
    { "void pplx::a2a_combine_recv_kernel<bf16>(int)", CLASS(MESSAGE) },
    /* XLA, words */
    { "all-reduce.7", CLASS(ALLREDUCE) },
    { "%all-gather-start.3 = f32[8] all-gather-start(%p)", CLASS(ALLGATHER) },
    { "collective-permute-start", CLASS(MESSAGE) },
    { "ragged-all-to-all.1", CLASS(ALLTOALL) },
    { "send-done.2", CLASS(MESSAGE) },
    { "All2AllKernel", CLASS(ALLTOALL) },
    { "my_a2a_kernel", CLASS(ALLTOALL) },
    /* Copies */
    { "Memcpy HtoD (Pageable -> Device)", CLASS(COPY) },
    { "MemcpyD2D", CLASS(COPY) },
    { "CopyDeviceToDevice", CLASS(COPY) },
    { "copy-start.3", CLASS(COPY) },
    { "__amd_rocclr_copyBuffer.kd", CLASS(COPY) },
    { "dma_request", CLASS(COPY) },
    { "nrt_tensor_read", CLASS(COPY) },
    /* Computation */
    { "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(int)", CLASS(COMPUTE) },
    { "void at::native::_scatter_gather_elementwise_kernel<128, 4>(int)", CLASS(COMPUTE) },
    { "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*> >(int)", CLASS(COMPUTE) },
    { "void cublasLt::splitKreduce_kernel<32, 16, int>(int)", CLASS(COMPUTE) },
    { "void splitKreduce_kernel<float>(cublasSplitKParams<float>)", CLASS(COMPUTE) },
    { "triton_red_fused_add_native_layer_norm_1", CLASS(COMPUTE) },
    { "void flash_fwd_splitkv_mla_combine_kernel<float>(int)", CLASS(COMPUTE) },
    { "block_all_reduce_sum_f32_f32_kernel(float*, float*, int)", CLASS(COMPUTE) },
    { "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16>(int)", CLASS(COMPUTE) },
    { "MatmulAllReduce", CLASS(FUSED) },
    { "AllGatherMatmul", CLASS(FUSED) },
    { "triton_poi_fused_add_all_reduce_4", CLASS(FUSED) },
    { "triton_dist_all_reduce_push", CLASS(ALLREDUCE) },
    { "ampere_sgemm_32x128_nt", CLASS(UNKNOWN) },
    { "void small_reduce<float>(int)", CLASS(UNKNOWN) },
    { "call_gather", CLASS(UNKNOWN) },
    { "void deep_ep::layout::get_dispatch_layout<256, 32, 2>(long const*)", CLASS(COMPUTE) },
    { "device_kernel<x>::FlashAttnFwdCombine", CLASS(COMPUTE) },
    { "AlltoAllvGroupedMatMul", CLASS(FUSED) },
    { "BatchMatMulReduceScatterAlltoAll", CLASS(FUSED) },
    { "DispatchGmmCombineDecode", CLASS(FUSED) },
    { "occlusion_kernel", CLASS(COMPUTE) },
    { "ascend_softmax", CLASS(UNKNOWN) },
    { "descending_sort", CLASS(UNKNOWN) },
    { "elementwise<nccl::T>", CLASS(UNKNOWN) }, /* template arguments say nothing of the function */
    { "", CLASS(UNKNOWN) },
    { "(", CLASS(UNKNOWN) },
    { "_Z", CLASS(UNKNOWN) },
    { "_ZN99999999999999999999nccl", CLASS(UNKNOWN) },
};

TEST(names_of_libraries)
{
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        mrd_str name = mrd_str_of(names[i].name);
        char *exact = malloc(name.len + 1);

        REQUIRE(exact != NULL);
        memcpy(exact, name.p, name.len);
        CHECK_ROW(names[i].name,
                  mrd_kernel_class_of_name(NULL, (mrd_str){ exact, name.len }) == names[i].class);
        free(exact);
    }
}

TEST(forms)
{
    static const struct {
        const char *name, *form;
    } rows[] = {
        { "void vllm::cross_device_reduce_1stage<half, 2>(T*)",
          "_void_vllm_cross_device_reduce_1stage_" },
        { "oneShotAllReduceKernel", "_one_shot_allreduce_kernel_" },
        { "NCCLAllReduce", "_nccl_allreduce_" },
        { "HTTPServer2x", "_http_server2x_" },
        { "_allgather_base", "_allgather_base_" },
        { "reduce_scatter_tensor_coalesced", "_reducescatter_tensor_coalesced_" },
        { "hipGraphLaunch->EpCombine", "_hip_graph_launch_ep_combine_" },
        { "", "_" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        char form[128];

        CHECK_TEXT(mrd_kernel_name_form(mrd_str_of(rows[i].name), form, sizeof(form)).p,
                   rows[i].form);
    }
}

/* Names of random bytes are in memory blocks of exactly their size, so that reading beyond the end
 * is detected. The common form of a name must not exceed the size of its buffer. */
TEST(any_bytes)
{
    static const char alphabet[] = "aAzZ09_:<>()*?^ -._ZNall_reduce\xff";
    unsigned seed = test_seed();

    for (int round = 0; round < 20000; round++) {
        size_t len = (size_t) rand_r(&seed) % (round % 50 == 0 ? 2000 : 40);
        char *name = malloc(len > 0 ? len : 1), form[64];

        REQUIRE(name != NULL);
        for (size_t i = 0; i < len; i++)
            name[i] = alphabet[(size_t) rand_r(&seed) % (sizeof(alphabet) - 1)];
        CHECK(mrd_kernel_name_form((mrd_str){ name, len }, form, sizeof(form)).len < sizeof(form));
        (void) mrd_kernel_class_of_name(NULL, (mrd_str){ name, len });
        (void) mrd_kernel_name_suspicious((mrd_str){ name, len });
        free(name);
    }
}

TEST(suspicious_names)
{
    static const struct {
        const char *name;
        bool is;
    } rows[] = { { "my_gather_v2", true },    { "FastReduce", true },   { "token_dispatch", true },
                 { "isend", false },          { "send_tokens", true },  { "gemm", false },
                 { "descend_kernel", false }, { "combineHeads", true }, { "x<reduce>", false } };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name, mrd_kernel_name_suspicious(mrd_str_of(rows[i].name)) == rows[i].is);
}

static mrd_err
load(const char *text, mrd_kernel_rules **ret, mrd_why *why)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/rules", test_tmp());
    if ((f = fopen(path, "w")) == NULL)
        return MRD_IO;
    fputs(text, f);
    fclose(f);
    return mrd_kernel_rules_load(path, ret, why);
}

TEST(rules_of_a_user_come_first)
{
    static const struct {
        const char *name;
        mrd_kernel_class class;
    } rows[] = { { "void lib::myFastSum<float>(int)", CLASS(ALLREDUCE) },
                 { "ncclDevKernel_AllReduce_x", CLASS(COMPUTE) },
                 { "lib::exchange", CLASS(MESSAGE) },
                 { "a_lib::exchange", CLASS(UNKNOWN) }, /* anchored: not its first words */
                 { "x_reduce_scatter_y", CLASS(COPY) },
                 { "gemm", CLASS(UNKNOWN) } };
    mrd_kernel_rules *rules = NULL;
    mrd_why why = { 0 };

    REQUIRE(load("# comment\n\n  allreduce\tmyFast*  \r\ncompute nccl*\ncommunication "
                 "^lib::exchange(int)\ncopy "
                 "ReduceScatter",
                 &rules, &why) == MRD_OK);
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].name,
                  mrd_kernel_class_of_name(rules, mrd_str_of(rows[i].name)) == rows[i].class);
    mrd_kernel_rules_free(rules);
}

TEST(lines_that_are_no_rules)
{
    static const char *const rows[] = { "allreduce\n", "allreduce *\n", "collect x\n", "x",
                                        "fused gemm*" };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_kernel_rules *rules = NULL;
        mrd_why why = { 0 };
        char text[64];

        snprintf(text, sizeof(text), "\n%s", rows[i]);
        CHECK_ERR(rows[i], load(text, &rules, &why), MRD_INVALID);
        CHECK(strstr(why.text, "line 2: expected a class and a pattern") != NULL);
    }
}

TEST_MAIN()
