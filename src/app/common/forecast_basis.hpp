#pragma once
#include <string>

#include "app/common/forecasting.hpp"
#include "app/common/networks.hpp"
#include "app/common/prices.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::app {

/// What forecasts rest on, as options say it.
struct ForecastBasis {
  std::string profiles;   ///< a probe's profile or a library; empty: the catalogue alone
  std::string catalogue;  ///< a site's own hardware catalogue; empty: the built-in one alone
  std::string runtime = "flotilla";
  bool sailor_artifact = false;     ///< --cost-model
  bool separate_documents = false;  ///< as data.documents of a job
  int sources = 0;                  ///< of a mixture, as program::Runtime's
  session::RunConfig::Comm::Reduction reduction = session::RunConfig::Comm::Reduction::ordered;
  compute::AttentionKernel attention = compute::AttentionKernel::automatic;  ///< as device.attention of a job
  bool deterministic = true;                                                 ///< as training.deterministic
  int expert_parallel = 0;                                                   ///< program::LayerRuntime's; 0: as the runtime does it
  Prices prices;
  NetworkWords networks;
};

/// Of --comm.reduction (train), --reduction (plan, simulate).
options::Choice<session::RunConfig::Comm::Reduction> reductions();

/// Of --device.attention (train), --attention (plan, simulate).
options::Choice<compute::AttentionKernel> attentions();

/// --profiles, --catalogue, --runtime, --cost-model, --reduction, --attention, --deterministic, --expert-parallel, --price, --billing,
/// --egress, --link, --nic and --oversubscription, in the table's section of that name.
void add_forecast_basis(options::Table&, const std::string& section, ForecastBasis&);
/// --data.documents (train, plan, simulate), --evaluate.documents, in the section that the table has begun.
void add_documents(options::Table&, bool& separate, const std::string& section = "data");
/// Once the table is read: who said the prices and networks. Throws Error where the cost model knows no such.
void note_origins(const options::Table&, const std::string& section, ForecastBasis&);

/// What the profiles say. Throws Error{usage} where a cost model needs measurements and there are none.
files::Library known_devices(const ForecastBasis&);
/// The entries of --catalogue, then the built-in ones. Throws Error{bad_input}.
cluster::Catalogue catalogue_of(const ForecastBasis&);

/// That profile without operation times that were measured with a model of another shape; a warning says so.
cluster::Profile profile_for(cluster::Profile, const ForecastBasis&, const model::Config&, int length);

/// The closed formulas know one price of a type. Throws Error{unavailable} where zones have their own.
void require_one_price(const cluster::Profile&);

/// Throws Error{usage} for an unknown runtime.
ForecastSettings settings_of(const ForecastBasis&);

}  // namespace flotilla::app
