/* trace/table/hbm_columns.h - lists the categories of device memory that have a column in the
 * vendor's table. The last column is for all other categories. */
#ifndef MRD_TRACE_TABLE_HBM_COLUMNS_H
#define MRD_TRACE_TABLE_HBM_COLUMNS_H

#define MRD_HBM_COLUMNS(X)                                                                         \
    X(generic)                                                                                     \
    X(tensor_instructions)                                                                         \
    X(scalar_instructions)                                                                         \
    X(gpsimd_instructions)                                                                         \
    X(io)                                                                                          \
    X(dram_spill)                                                                                  \
    X(weights)                                                                                     \
    X(profiler_buffers)                                                                            \
    X(scalar_table)                                                                                \
    X(vector_instructions)                                                                         \
    X(sync_instructions)                                                                           \
    X(shared_scratchpad)                                                                           \
    X(tensors)                                                                                     \
    X(ucode_lib)                                                                                   \
    X(gpsimd_stdio)                                                                                \
    X(collectives)                                                                                 \
    X(scratchpad)                                                                                  \
    X(dma_rings_runtime)                                                                           \
    X(dma_rings_spill)                                                                             \
    X(dma_rings_io)                                                                                \
    X(dma_rings_collectives)                                                                       \
    X(unknown)
enum {
#define MRD_HBM_INDEX(name) MRD_HBM_##name,
    MRD_HBM_COLUMNS(MRD_HBM_INDEX)
#undef MRD_HBM_INDEX
        MRD_HBM_CATEGORIES
};

#endif
