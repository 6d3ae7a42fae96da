<?php

declare(strict_types=1);

namespace App\Command;

use App\CachedValue;
use Symfony\Component\Console\Attribute\AsCommand;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Input\InputOption;
use Symfony\Component\Console\Output\OutputInterface;

/**
 * The value of the page /cached from the console: run as the same user, both see the same cache.
 */
#[AsCommand(name: 'app:cached', description: 'Shows the cached value of the page /cached, or forgets it')]
final class CachedCommand extends Command
{
    public function __construct(private readonly CachedValue $cached)
    {
        parent::__construct();
    }

    protected function configure(): void
    {
        $this->addOption('forget', null, InputOption::VALUE_NONE, 'Forget the value instead');
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        if ($input->getOption('forget')) {
            $this->cached->forget();
            $output->writeln('Forgotten.');

            return Command::SUCCESS;
        }
        $value = $this->cached->get();
        $output->writeln(sprintf(
            '%s, computed by process %d at %s',
            $value['value'],
            $value['worker'],
            date(\DATE_ATOM, $value['time'])
        ));

        return Command::SUCCESS;
    }
}
