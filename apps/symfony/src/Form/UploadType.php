<?php

declare(strict_types=1);

namespace App\Form;

use Symfony\Component\Form\AbstractType;
use Symfony\Component\Form\Extension\Core\Type\FileType;
use Symfony\Component\Form\Extension\Core\Type\TextType;
use Symfony\Component\Form\FormBuilderInterface;
use Symfony\Component\Validator\Constraints\Length;
use Symfony\Component\Validator\Constraints\NotNull;

final class UploadType extends AbstractType
{
    public function buildForm(FormBuilderInterface $builder, array $options): void
    {
        $builder
            ->add('file', FileType::class, ['constraints' => [new NotNull(message: 'Choose a file.')]])
            ->add('note', TextType::class, [
                'required' => false,
                'help' => 'Optional, up to 100 characters.',
                'attr' => ['maxlength' => 100],
                'constraints' => [new Length(max: 100)],
            ]);
    }
}
