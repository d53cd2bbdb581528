set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# The folder of the build is in no program, not even by the length of what an installation takes out.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

set(MRD_LIBDIR lib CACHE STRING "folder of libmeridian.so below the prefix: lib, or a distribution's lib/x86_64-linux-gnu")

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

option(MRD_WERROR "warnings are errors (CI)" OFF)
set(MRD_SANITIZE "" CACHE STRING "empty, address (with undefined) or thread")
option(MRD_FUZZ "build libFuzzer targets (clang only)" OFF)

add_library(mrd_flags INTERFACE)
target_link_libraries(mrd_flags INTERFACE m)
target_compile_definitions(mrd_flags INTERFACE _GNU_SOURCE=1 MRD_RELEASE="${PROJECT_VERSION}")
target_include_directories(mrd_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(mrd_flags INTERFACE -fno-common -fvisibility=hidden
    -ffp-contract=off # a clock's bound is the same on every processor, also where it could multiply and add at once
    -Wall -Wextra -Wshadow -Wconversion -Wvla -Wformat=2 -Wundef -Wcast-qual -Wwrite-strings
    -Wpointer-arith -Wimplicit-fallthrough
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>)
if(MRD_WERROR)
    target_compile_options(mrd_flags INTERFACE -Werror)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(mrd_flags INTERFACE -fstack-protector-strong)
    target_compile_definitions(mrd_flags INTERFACE _FORTIFY_SOURCE=2)
else()
    target_compile_definitions(mrd_flags INTERFACE MRD_DEBUG_BUILD=1)
endif()
if(MRD_SANITIZE STREQUAL "address")
    add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
    # libmeridian.so is not instrumented, so that it can be preloaded, and then comes before the sanitizer's library.
    set(MRD_TEST_ENVIRONMENT "ASAN_OPTIONS=verify_asan_link_order=0"
        "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0")
elseif(MRD_SANITIZE STREQUAL "thread")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
    # Libraries that are not instrumented would seem to race wherever they lock by themselves.
    set(MRD_TEST_ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
endif()
if(MRD_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
    add_link_options(-fsanitize=address,undefined)
endif()
# The commit, for `--version`: only the programs' main.c depend on it.
add_custom_target(mrd_commit COMMAND ${CMAKE_SOURCE_DIR}/scripts/commit.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated/meridian_commit.h
    BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/meridian_commit.h VERBATIM)
option(MRD_COVERAGE "count which lines run (gcov; scripts/coverage.py)" OFF)
if(MRD_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()
# The folder of the build is not in the debug information either. gcov looks for its files by these names.
if(NOT MRD_COVERAGE)
    file(RELATIVE_PATH MRD_BUILD_NAME ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
    add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=./${MRD_BUILD_NAME})
endif()
find_program(MRD_CCACHE ccache)
if(MRD_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER ${MRD_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${MRD_CCACHE})
endif()
