# Outside libraries of the rooms that plan and forecast.
find_package(nlohmann_json REQUIRED)
