# mrd_module(timesync SOURCES probe.c fit.c DEPENDS base [LIBS PkgConfig::zstd])
# One static library per room (a folder, or a part of it): target mrd_<name>. DEPENDS names the rooms that it may use, LIBS third-party targets.
function(mrd_module name)
    cmake_parse_arguments(M "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
    add_library(mrd_${name} STATIC ${M_SOURCES})
    list(TRANSFORM M_DEPENDS PREPEND mrd_)
    target_link_libraries(mrd_${name} PUBLIC mrd_flags ${M_DEPENDS} PRIVATE ${M_LIBS})
    set_property(GLOBAL APPEND PROPERTY MRD_ROOMS ${name})
endfunction()

# Links each room that exists so far with what it names and with nothing else, so that a call of another room is an error of the linker.
# A static library alone would not show it, because the programs link all rooms.
function(mrd_walls)
    get_property(rooms GLOBAL PROPERTY MRD_ROOMS)
    file(WRITE ${CMAKE_BINARY_DIR}/walls/main.c "int main(void) { return 0; }\n")
    foreach(name ${rooms})
        add_executable(mrd_wall_${name} ${CMAKE_BINARY_DIR}/walls/main.c)
        target_link_libraries(mrd_wall_${name} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,mrd_${name}>)
        target_link_options(mrd_wall_${name} PRIVATE -Wl,--strip-debug)
        set_target_properties(mrd_wall_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/walls)
    endforeach()
endfunction()

# mrd_program(meridian-agent SOURCES main.c DEPENDS agent)
function(mrd_program name)
    cmake_parse_arguments(M "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
    add_executable(${name}_program ${M_SOURCES}) # libmeridian.so is a target named meridian
    set_target_properties(${name}_program PROPERTIES OUTPUT_NAME ${name})
    add_dependencies(${name}_program mrd_commit)
    list(TRANSFORM M_DEPENDS PREPEND mrd_)
    target_link_libraries(${name}_program PRIVATE mrd_flags ${M_DEPENDS} ${M_LIBS})
    if(NOT name MATCHES "^bench_")
        install(TARGETS ${name}_program RUNTIME DESTINATION bin)
    endif()
endfunction()

# What takes longest is begun first, so that no processor waits for one of them at the end. ctest learns
# times by itself, but a fresh tree has none.
set(MRD_LONG_TESTS aggregator/s3 e2e/job-sessions e2e/export e2e/convert e2e/enrol e2e/previous e2e/limits kubelab/webhook
    e2e/web e2e/split e2e/token-review e2e/asked e2e/data sim/agents sim/cluster house/rules trace/parquet)

# A test takes one slot of ctest if it mostly waits, and four if it keeps a processor busy, so that `ctest -j 8` keeps two processors
# busy. The tests of daemons wait, but for these. The others compute, but for these. The guard's last line of each test has its processor time.
set(MRD_BUSY_TESTS e2e/align e2e/align_truth e2e/bigfile e2e/call-arrows e2e/data e2e/diff e2e/diff-ranks e2e/dlrm e2e/files e2e/flood
    e2e/foreign-generated e2e/foreign-hta e2e/foreign-imported e2e/foreign-importer e2e/foreign-others e2e/guide e2e/inspect e2e/memory-scopes
    e2e/options e2e/others-files e2e/perfetto_twin e2e/placed e2e/placed-drawn e2e/previous e2e/report e2e/roundtrip e2e/selection e2e/sql e2e/steps
    e2e/traces-hta e2e/traces-others e2e/web e2e/wheel fleet/fleet)
set(MRD_WAITING_TESTS aggregator/copies_fuse aggregator/export_fuse aggregator/s3 base/confined proto/nng_end)

# mrd_add_test(sim/clocks TIMEOUT s COMMAND … [LABELS …] [ENVIRONMENT …]): a test under tests/guard.c, which ends what it
# leaves behind and shows its stacks when it hangs. Exit status 77 means skipped. A sanitizer slows a test down several times.
function(mrd_add_test name)
    cmake_parse_arguments(PARSE_ARGV 1 M "" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
    if(MRD_SANITIZE)
        math(EXPR M_TIMEOUT "${M_TIMEOUT} * 5")
    endif()
    add_test(NAME ${name} COMMAND mrd_guard ${M_TIMEOUT} ${M_COMMAND} WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
    # The tier: of the folder, if the test names none itself.
    if(name MATCHES "^(e2e|fleet|kubelab|slurmlab|s3lab|clocklab|hostile)/")
        list(APPEND M_LABELS e2e)
    elseif(name MATCHES "^sim/")
        list(APPEND M_LABELS sim)
    elseif(NOT M_LABELS)
        set(M_LABELS unit)
    endif()
    list(REMOVE_DUPLICATES M_LABELS)
    if(name IN_LIST MRD_BUSY_TESTS OR NOT (name IN_LIST MRD_WAITING_TESTS OR name MATCHES "^(e2e|kubelab|slurmlab|s3lab|clocklab|hostile)/"))
        set_property(TEST ${name} PROPERTY PROCESSORS 4)
    endif()
    if(name IN_LIST MRD_LONG_TESTS)
        set_property(TEST ${name} PROPERTY COST 60)
    endif()
    math(EXPR last "${M_TIMEOUT} + 300") # the guard is first
    set_tests_properties(${name} PROPERTIES TIMEOUT ${last} SKIP_RETURN_CODE 77 LABELS "${M_LABELS}" ENVIRONMENT
        "MERIDIAN_SOURCE=${CMAKE_SOURCE_DIR};MERIDIAN_BUILD=${CMAKE_BINARY_DIR};${MRD_TEST_ENVIRONMENT};${M_ENVIRONMENT}")
endfunction()

# mrd_test(trace/merge DEPENDS trace [SOURCES more.c] [LIBS …] [TIMEOUT s] [LABELS …])
# builds tests/trace/merge_test.c (it includes tests/check.h) and registers it as test trace/merge.
function(mrd_test name)
    cmake_parse_arguments(M "" "TIMEOUT" "SOURCES;DEPENDS;LIBS;LABELS" ${ARGN})
    string(REPLACE "/" "_" target test_${name})
    add_executable(${target} ${CMAKE_SOURCE_DIR}/tests/${name}_test.c ${M_SOURCES})
    list(TRANSFORM M_DEPENDS PREPEND mrd_)
    target_link_libraries(${target} PRIVATE mrd_flags ${M_DEPENDS} ${M_LIBS})
    if(NOT M_TIMEOUT)
        set(M_TIMEOUT 300) # for a machine that does much else: 135 s were seen at a load of 20
    endif()
    mrd_add_test(${name} TIMEOUT ${M_TIMEOUT} COMMAND $<TARGET_FILE:${target}> LABELS ${M_LABELS})
endfunction()

# mrd_script_test(e2e/view COMMAND … [TIMEOUT s]): a script as a test; exit 77 means skipped, and it says why. It runs built programs, so its
# tier is e2e, but for house/.
function(mrd_script_test name)
    cmake_parse_arguments(M "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
    if(NOT M_TIMEOUT)
        set(M_TIMEOUT 1800) # for a machine that does much else: 518 s were seen at a load of 20
    endif()
    if(NOT M_LABELS AND NOT name MATCHES "^house/")
        set(M_LABELS e2e)
    endif()
    mrd_add_test(${name} TIMEOUT ${M_TIMEOUT} COMMAND ${M_COMMAND} LABELS ${M_LABELS})
endfunction()

# mrd_fuzz(import_nrt DEPENDS trace): tests/fuzz/fuzz_import_nrt.c defines LLVMFuzzerTestOneInput.
# With the fuzz preset it becomes a libFuzzer program; otherwise a test replays tests/fuzz/corpus/import_nrt/.
function(mrd_fuzz name)
    cmake_parse_arguments(M "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
    list(TRANSFORM M_DEPENDS PREPEND mrd_)
    set(source ${CMAKE_SOURCE_DIR}/tests/fuzz/fuzz_${name}.c)
    add_executable(fuzz_${name} ${source} ${M_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE mrd_flags ${M_DEPENDS} ${M_LIBS})
    if(MRD_FUZZ)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        add_dependencies(fuzz_targets fuzz_${name})
    else()
        target_sources(fuzz_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
        mrd_add_test(fuzz/${name} TIMEOUT 120
            COMMAND $<TARGET_FILE:fuzz_${name}> ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
    endif()
endfunction()
