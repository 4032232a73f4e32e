package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what this door counts. Labels come from the routes table and from
// status codes, never from a request.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	items    *prometheus.CounterVec
	panics   prometheus.Counter
	exposed  http.Handler
}

func newMetrics(reg *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_http_requests_total", Help: "Requests answered, by route and status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "queen_http_request_seconds", Help: "Time from a request's header to its answer, waits included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 60},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "queen_http_requests_in_flight", Help: "Requests being answered, parked ones included.",
		}),
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "queen_http_push_items_total", Help: "Pushed items, by outcome.",
		}, []string{"status"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "queen_http_panics_total", Help: "Handlers that panicked; each is a bug.",
		}),
		exposed: promhttp.HandlerFor(reg, promhttp.HandlerOpts{}),
	}
	reg.MustRegister(m.requests, m.seconds, m.inFlight, m.items, m.panics)
	return m
}

func (m *metrics) answered(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}
