# What `make install` brings, below PREFIX; DESTDIR is honoured. `programs` builds exactly that, without tests and measurements.
#   bin/                     meridian, meridian-agent, meridian-aggregator, meridian-webhook
#   LIBDIR/                  libmeridian.so, pkgconfig/       (MRD_LIBDIR: lib, or a distribution's lib/x86_64-linux-gnu)
#   lib/meridian/            train_loop and the simulated runtime of `meridian demo`; python/: the modules
#   include/meridian.h
#   lib/systemd/system/      the units, with the paths of PREFIX (MRD_UNITDIR)
#   share/man/man1, share/bash-completion/completions
#   share/meridian/          deploy/ and sql/
#   share/doc/meridian/      README.md, LICENSE, docs/
set(MRD_UNITDIR lib/systemd/system CACHE STRING "folder of the systemd units, below the prefix or absolute")
set(MRD_PYTHONDIR lib/meridian/python CACHE STRING "folder of the Python modules, below the prefix or absolute")

# Manual pages and completions come from the option tables of the programs themselves.
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/man/meridian.1
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/manual.sh ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${CMAKE_BINARY_DIR}/man
    DEPENDS meridian_program meridian-agent_program meridian-aggregator_program meridian-webhook_program ${CMAKE_SOURCE_DIR}/scripts/manual.sh
    VERBATIM)
add_custom_target(manual ALL DEPENDS ${CMAKE_BINARY_DIR}/man/meridian.1)
add_custom_target(programs DEPENDS demo_programs manual)

install(TARGETS meridian LIBRARY DESTINATION ${MRD_LIBDIR})
install(FILES ${CMAKE_BINARY_DIR}/capture/meridian.pc ${CMAKE_BINARY_DIR}/capture/meridian-nrt.pc
    DESTINATION ${MRD_LIBDIR}/pkgconfig)
install(FILES capture/meridian.h DESTINATION include)

install(TARGETS train_loop RUNTIME DESTINATION lib/meridian)
install(TARGETS simnrt simclock_preload LIBRARY DESTINATION lib/meridian/simnrt NAMELINK_SKIP)
set_target_properties(train_loop PROPERTIES INSTALL_RPATH "$ORIGIN/simnrt")

install(FILES python/meridian.py python/meridian_data.py DESTINATION ${MRD_PYTHONDIR})
install(DIRECTORY sql DESTINATION share/meridian FILES_MATCHING PATTERN "*.sql")
install(DIRECTORY deploy DESTINATION share/meridian USE_SOURCE_PERMISSIONS
    PATTERN "*.so" EXCLUDE PATTERN "debian" EXCLUDE)
install(FILES README.md LICENSE DESTINATION share/doc/meridian)
install(DIRECTORY docs DESTINATION share/doc/meridian)

install(DIRECTORY ${CMAKE_BINARY_DIR}/man/ DESTINATION share/man/man1 FILES_MATCHING PATTERN "*.1")
install(FILES deploy/completion/meridian.bash DESTINATION share/bash-completion/completions RENAME meridian)
# bash-completion looks for a file of the program's name.
install(CODE [[
    set(folder "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/bash-completion/completions")
    foreach(name meridian-agent meridian-aggregator meridian-webhook)
        message(STATUS "Installing: ${folder}/${name}")
        file(CREATE_LINK meridian "${folder}/${name}" SYMBOLIC)
    endforeach()
]])

# The units name the programs that stand beside them.
install(CODE "
    set(unit_source \"${CMAKE_SOURCE_DIR}/deploy/systemd\")
    set(unit_folder \"${MRD_UNITDIR}\")")
install(CODE [[
    if(NOT IS_ABSOLUTE "${unit_folder}")
        set(unit_folder "${CMAKE_INSTALL_PREFIX}/${unit_folder}")
    endif()
    foreach(name meridian-agent.service meridian-aggregator.service)
        file(READ "${unit_source}/${name}" unit)
        string(REPLACE "=/usr/bin/meridian" "=${CMAKE_INSTALL_PREFIX}/bin/meridian" unit "${unit}")
        message(STATUS "Installing: $ENV{DESTDIR}${unit_folder}/${name}")
        file(WRITE "$ENV{DESTDIR}${unit_folder}/${name}" "${unit}")
        file(CHMOD "$ENV{DESTDIR}${unit_folder}/${name}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
    endforeach()
]])
