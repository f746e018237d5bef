// Command es finds a point by an evolution strategy: it scores random steps
// around its position, on a pool of processes, and moves where the scores rise.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/fiber-go/fiber"
)

// solution is the point to find.
var solution = []float64{5, -5, 1.5}

// trial is a task: the score of theta + sigma*noise. Theta reaches each
// worker once an iteration, whatever the number of its trials, and the noise
// is not sent at all: both sides draw it from the seed.
type trial struct {
	Theta *fiber.Shared[[]float64]
	Sigma float64
	Seed  uint64
}

var score = fiber.Register("score", func(ctx context.Context, t trial) (float64, error) {
	theta, err := t.Theta.Get(ctx)
	if err != nil {
		return 0, err
	}
	d := distance(moved(theta, t.Sigma, noise(t.Seed, len(theta))))
	return -d * d, nil
})

// noise returns n normally distributed numbers, the same for the same seed.
func noise(seed uint64, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	numbers := make([]float64, n)
	for i := range numbers {
		numbers[i] = rng.NormFloat64()
	}
	return numbers
}

// moved returns theta + by*direction.
func moved(theta []float64, by float64, direction []float64) []float64 {
	sum := make([]float64, len(theta))
	for i := range theta {
		sum[i] = theta[i] + by*direction[i]
	}
	return sum
}

// distance returns how far theta is from the solution.
func distance(theta []float64) float64 {
	sum := 0.0
	for i := range theta {
		sum += (theta[i] - solution[i]) * (theta[i] - solution[i])
	}
	return math.Sqrt(sum)
}

// tooFar is a distance from which a search does not come back.
const tooFar = 1e6

// settings are the parameters of a search.
type settings struct {
	workers, iterations, population int
	sigma, alpha                    float64
	seed                            uint64
}

func (s settings) check() error {
	switch {
	case s.iterations < 1:
		return fmt.Errorf("-iterations %d: it must be at least 1", s.iterations)
	case s.population < 2:
		return fmt.Errorf("-population %d: it must be at least 2, scores to compare", s.population)
	case !(s.sigma > 0) || math.IsInf(s.sigma, 0):
		return fmt.Errorf("-sigma %v: it must be more than 0", s.sigma)
	case !(s.alpha > 0) || math.IsInf(s.alpha, 0):
		return fmt.Errorf("-alpha %v: it must be more than 0", s.alpha)
	}
	return nil
}

// search starts at a random point and returns the one where the last iteration
// ends. It calls progress after each iteration.
func search(ctx context.Context, s settings, progress func(iteration int, theta []float64)) ([]float64, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	pool, err := fiber.NewPool(s.workers)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	rng := rand.New(rand.NewPCG(s.seed, 0))
	theta := noise(rng.Uint64(), len(solution))
	for i := range s.iterations {
		theta, err = iterate(ctx, pool, s, rng, theta)
		if err != nil {
			return nil, err
		}
		if d := distance(theta); !(d < tooFar) { // also true for NaN
			return nil, fmt.Errorf("the search diverged in iteration %d; try a smaller -alpha", i+1)
		}
		progress(i+1, theta)
	}
	return theta, nil
}

// iterate scores a population of random steps from theta and moves theta
// along each by how much better than the average it scored.
func iterate(ctx context.Context, pool *fiber.Pool, s settings, rng *rand.Rand, theta []float64) ([]float64, error) {
	shared, err := fiber.Share(ctx, theta)
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	trials := make([]trial, s.population)
	for i := range trials {
		trials[i] = trial{Theta: shared, Sigma: s.sigma, Seed: rng.Uint64()}
	}
	scores, err := fiber.Map(ctx, pool, score, trials)
	if err != nil {
		return nil, err
	}
	// The scores are often divided by their deviation. Here they are not: the
	// steps would not shrink near the solution, and miss it by 0.2 for ever.
	average := mean(scores)
	n := float64(s.population)
	for i, t := range trials {
		theta = moved(theta, s.alpha/(n*s.sigma)*(scores[i]-average), noise(t.Seed, len(theta)))
	}
	return theta, nil
}

func mean(numbers []float64) float64 {
	sum := 0.0
	for _, x := range numbers {
		sum += x
	}
	return sum / float64(len(numbers))
}

func main() { fiber.Main(run) }

func run(ctx context.Context) error {
	var s settings
	flag.IntVar(&s.workers, "workers", 4, "how many processes score; 0 for one per CPU")
	flag.IntVar(&s.iterations, "iterations", 200, "how many `steps` theta takes")
	flag.IntVar(&s.population, "population", 40, "how many points around theta are scored for each")
	flag.Float64Var(&s.sigma, "sigma", 0.1, "standard `deviation` of their distance from theta")
	flag.Float64Var(&s.alpha, "alpha", 0.05, "learning `rate`: how far theta moves for a score")
	flag.Uint64Var(&s.seed, "seed", 1, "`number` from which the start and the steps are drawn")
	flag.Usage = usage
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("es takes only flags, not %q; -h lists them", flag.Args())
	}
	d := newDisplay(s.iterations)
	theta, err := search(ctx, s, d.show)
	d.end()
	if err != nil {
		return err
	}
	fmt.Printf("Found %s, which is %.3f from the solution %s\n", text(theta), distance(theta), text(solution))
	return nil
}

// display shows the progress of the search: on a terminal in one line that
// changes, elsewhere in a new line every 20 iterations.
type display struct {
	iterations int
	terminal   bool
	open       bool // the line on the terminal still needs its newline
}

func newDisplay(iterations int) *display {
	info, err := os.Stdout.Stat()
	return &display{iterations: iterations, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (d *display) show(i int, theta []float64) {
	line := fmt.Sprintf("iteration %d/%d  theta %s  distance %.3f", i, d.iterations, text(theta), distance(theta))
	if d.terminal {
		fmt.Print("\r", line, "\x1b[K") // overwrite the line, and clear the rest of it
		d.open = true
	} else if i%20 == 0 || i == d.iterations {
		fmt.Println(line)
	}
}

func (d *display) end() {
	if d.open {
		fmt.Println()
	}
}

func text(theta []float64) string {
	return fmt.Sprintf("(%.2f, %.2f, %.2f)", theta[0], theta[1], theta[2])
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `Es finds the point (5, -5, 1.5) by an evolution strategy: it scores random
steps around its position, on a pool of processes, and moves where scores rise.

	go run ./examples/es -workers 2 -iterations 100

Flags:
`)
	flag.PrintDefaults()
}
